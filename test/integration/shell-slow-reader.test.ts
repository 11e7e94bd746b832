/** Nothing of a session is lost to whoever reads its output late, though the agent has closed the connection by then. */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import type { ShellSession } from "#host/clients/shell/session.ts";
import { Guest } from "#host/guest.ts";
import { type LocalAgent, startLocalAgent } from "#test/shell/agent.ts";
import { childrenOf, eventually, isAlive } from "#test/shell/processes.ts";
import { RawClient } from "#test/shell/raw-client.ts";

setDefaultTimeout(60_000);

/** more than the client keeps, less than it and the kernel do: the agent is rid of it all, and closes after 2 s */
const outputBytes = 450_000;
const untilClosedMs = 3_000;

let agent: LocalAgent;

beforeAll(async () => {
  agent = await startLocalAgent();
});

afterAll(() => agent.stop());

async function open(script: string, tty = false): Promise<ShellSession> {
  const session = await Guest.connect(agent.target).shell({ argv: ["sh", "-c", script], tty });
  session.stderr.resume();
  return session;
}

async function readAll(session: ShellSession): Promise<{ bytes: number; code: number }> {
  let bytes = 0;
  for await (const chunk of session.stdout) bytes += (chunk as Buffer).length;
  return { bytes, code: (await session.exit).code };
}

const flood = `head -c ${outputBytes} /dev/zero; exit 6`;
const whole = { bytes: outputBytes, code: 6 };

test("to a reader that pauses for longer than it takes to look after a silent session", async () => {
  const session = await open(flood);
  await Bun.sleep(11_000);
  expect(await readAll(session)).toEqual(whole);
});

test("to a signal that comes after the command's end", async () => {
  const sessions = await Promise.all([open(flood), open(flood, true)]);
  await Bun.sleep(untilClosedMs);
  for (const session of sessions) session.signal(2);
  await Bun.sleep(200);
  expect(await Promise.all(sessions.map(readAll))).toEqual([whole, whole]);
});

test("to a window that changes its size after the command's end", async () => {
  const session = await open(flood, true);
  await Bun.sleep(untilClosedMs);
  session.resize({ rows: 5, cols: 5 });
  await Bun.sleep(200);
  expect(await readAll(session)).toEqual(whole);
});

test("to input that comes after the command's end", async () => {
  const sessions = await Promise.all([open(flood), open(flood, true)]);
  await Bun.sleep(untilClosedMs);
  for (const session of sessions) session.stdin.end("late\n");
  await Bun.sleep(200);
  expect(await Promise.all(sessions.map(readAll))).toEqual([whole, whole]);
});

test("to a command that has made its pipe larger, and ended while it was full", async () => {
  const script = `
    import { tryPipeSize } from ${JSON.stringify(Bun.fileURLToPath(import.meta.resolve("#sys/fd.ts")))};
    import { writeSync } from "node:fs";
    tryPipeSize(1, 1 << 20);
    writeSync(1, Buffer.alloc(700_000));
    Bun.sleepSync(300);
    writeSync(1, Buffer.alloc(1_000_000));
    process.exit(6);`;
  const client = await RawClient.start(agent.directory, { argv: [process.execPath, "-e", script] });
  await client.started();
  client.socket.pause();
  await Bun.sleep(1_500);
  client.socket.on("data", () => {
    client.socket.pause();
    setTimeout(() => client.socket.resume(), 50);
  });
  client.socket.resume();
  expect(await client.exit()).toBe(6);
  expect(client.stdout.length).toBe(1_700_000);
});

test("and yet a signal reaches a command whose output nobody reads", async () => {
  for (const tty of [false, true]) {
    const session = await open("exec yes", tty);
    await eventually("the output to wait for its reader", () => session.stalled);
    const [pid = 0] = childrenOf(agent.pid);
    expect(isAlive(pid)).toBe(true);
    session.signal(15);
    await eventually("the command to be gone", () => !isAlive(pid), 3_000);
    session.stdout.resume();
    expect((await session.exit).code).toBe(143);
  }
});

test("and yet a key reaches a command whose output nobody reads", async () => {
  const session = await open("exec yes", true);
  await eventually("the output to wait for its reader", () => session.stalled);
  session.stdin.write("\x03");
  await Bun.sleep(200);
  session.stdout.resume();
  expect((await session.exit).code).toBe(130);
});

test("input of a filter whose output is read slowly arrives whole, and its end", async () => {
  const session = await open("cat");
  const sent = 4 * 1024 * 1024;
  session.stdin.end(Buffer.alloc(sent, 1));
  let bytes = 0;
  for await (const chunk of session.stdout) {
    bytes += (chunk as Buffer).length;
    await Bun.sleep(20);
  }
  expect([bytes, (await session.exit).code]).toEqual([sent, 0]);
});

/** "Stdin flow control", and the stdin and stdinEOF rows of "Frame types", against a real agent. */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { randomBytes } from "node:crypto";
import { encodeFrame, maxPayloadBytes } from "#protocol/shell/frames.ts";
import type { ShellStart } from "#protocol/shell/start.ts";
import { type LocalAgent, startLocalAgent } from "#test/shell/agent.ts";
import { childrenOf, eventually, groupMembers, isAlive, residentBytes } from "#test/shell/processes.ts";
import { RawClient } from "#test/shell/raw-client.ts";

setDefaultTimeout(30_000);

const window = 262_144;
let agent: LocalAgent;

beforeAll(async () => {
  agent = await startLocalAgent();
});

afterAll(() => agent.stop());

const open = async (start: ShellStart) => (await RawClient.start(agent.directory, start)).started();
/** long enough for anything that is on its way to arrive */
const settle = () => Bun.sleep(150);

async function stillAnswers(): Promise<void> {
  const client = await RawClient.start(agent.directory, { argv: ["echo", "alive"] });
  expect(await client.exit()).toBe(0);
}

/** `name pid` as the first line of a command's output */
async function pidFrom(client: RawClient): Promise<number> {
  await client.until(() => client.stdout.includes("\n"));
  return Number(client.stdout.toString().split("\n", 1)[0]);
}

describe("credit", () => {
  test("256 KiB are granted up front, in one window frame before started", async () => {
    const client = await open({ argv: ["cat"], flow: true });
    await settle();
    expect(client.frames).toEqual([{ type: "window", bytes: window }, { type: "started" }]);
    client.vanish();
  });

  test("is not returned at receipt: a command that does not read leaves a full client without credit", async () => {
    const client = await open({ argv: ["sleep", "60"], flow: true });
    for (let sent = 0; sent < window; sent += 65_536) client.stdin(Buffer.alloc(65_536));
    await settle();
    // What fits into the pipe has been written, and only that is credited.
    expect(client.granted - window).toBeLessThanOrEqual(65_536);
    client.vanish();
  });

  test("is returned after the write, down to the last byte, and never more than was sent", async () => {
    const client = await open({ argv: ["sh", "-c", "sleep 0.4; cat | wc -c"], flow: true });
    let sent = 0;
    const sizes = [1, 65_536, 65_536, 65_536, 65_000, 535];
    for (const size of sizes) {
      client.stdin(Buffer.alloc(size));
      sent += size;
      expect(client.granted - window).toBeLessThanOrEqual(sent);
    }
    await client.until(() => client.granted - window === sent);
    client.send({ type: "stdinEof" });
    expect(await client.exit()).toBe(0);
    expect(client.granted - window).toBe(sent);
    expect(client.stdout.toString().trim()).toBe(String(sent));
  });

  test("lets a client that keeps to it send any amount: 8 MiB through cat, unchanged", async () => {
    const client = await open({ argv: ["cat"], flow: true });
    const input = randomBytes(8 * 2 ** 20);
    let sent = 0;
    while (sent < input.length) {
      await client.until(() => client.granted > sent);
      const bytes = Math.min(client.granted - sent, 65_536, input.length - sent);
      client.stdin(input.subarray(sent, sent + bytes));
      sent += bytes;
      expect(client.granted - window).toBeLessThanOrEqual(sent);
    }
    client.send({ type: "stdinEof" });
    expect(await client.exit()).toBe(0);
    expect(client.stdout.equals(input)).toBe(true);
    expect(client.granted - window).toBe(input.length);
  });

  test("comes back for input that a command which closed its stdin never read", async () => {
    const client = await open({ argv: ["sh", "-c", "exec 0<&-; echo closed; sleep 1; echo over"], flow: true });
    await client.output("closed");
    let sent = 0;
    for (let index = 0; index < 20; index += 1) {
      await client.until(() => client.granted > sent);
      client.stdin(Buffer.alloc(100_000));
      sent += 100_000;
    }
    await client.until(() => client.granted - window === sent);
    expect(await client.exit()).toBe(0);
    expect(client.stdout.toString()).toBe("closed\nover\n");
  });

  test("is given on a pty as well", async () => {
    const client = await open({
      argv: ["sh", "-c", "stty raw -echo; echo ready; head -c 500000 | wc -c"],
      tty: true,
      flow: true,
    });
    await client.output("ready");
    let sent = 0;
    while (sent < 500_000) {
      await client.until(() => client.granted > sent);
      const bytes = Math.min(client.granted - sent, 50_000, 500_000 - sent);
      client.stdin(Buffer.alloc(bytes, 0x61));
      sent += bytes;
    }
    expect(await client.exit()).toBe(0);
    expect(client.stdout.toString()).toContain("500000");
    expect(client.granted - window).toBe(500_000);
  });

  test("signals and resizes pass a command that does not read its stdin", async () => {
    const script =
      "trap 'echo interrupted; exit 9' INT; trap 'stty size' WINCH; echo ready; while :; do sleep 0.05; done";
    for (const tty of [false, true]) {
      const client = await open({ argv: ["sh", "-c", tty ? `stty raw -echo; ${script}` : script], tty, flow: true });
      await client.output("ready");
      for (let sent = 0; sent < window; sent += 65_536) client.stdin(Buffer.alloc(65_536));
      if (tty) {
        client.send({ type: "resize", rows: 33, cols: 99 });
        await client.output("33 99");
      }
      client.send({ type: "signal", number: 2 });
      expect(await client.exit()).toBe(9);
    }
  });
});

describe("a client that overruns its credit", () => {
  test("is bounded: the agent stops reading from it and its memory does not grow", async () => {
    const client = await open({ argv: ["sh", "-c", "sleep 1.5; cat | wc -c"], flow: true });
    const before = residentBytes(agent.pid);
    const total = 64 * 2 ** 20;
    for (let sent = 0; sent < total; sent += maxPayloadBytes) client.stdin(Buffer.alloc(maxPayloadBytes));
    await Bun.sleep(700);
    expect(client.socket.writableLength).toBeGreaterThan(total / 2);
    expect(residentBytes(agent.pid) - before).toBeLessThan(32 * 2 ** 20);
    await stillAnswers();
    client.send({ type: "stdinEof" });
    expect(await client.exit()).toBe(0);
    expect(client.stdout.toString().trim()).toBe(String(total));
  });

  test.each([false, true])("and vanishes meanwhile is noticed, and its command hung up (tty %p)", async (tty) => {
    const script = "echo $$; while :; do sleep 1; done";
    const client = await open({ argv: ["sh", "-c", tty ? `stty raw -echo; ${script}` : script], tty, flow: true });
    const pid = await pidFrom(client);
    for (let index = 0; index < 16; index += 1) client.stdin(Buffer.alloc(maxPayloadBytes));
    await settle();
    client.vanish();
    await eventually("the command to be gone", () => !isAlive(pid) && groupMembers(pid).length === 0, 5_000);
    await stillAnswers();
  });

  test("and does not read is told of its credit in few frames, however many payloads it sent", async () => {
    const client = await open({ argv: ["sh", "-c", "cat > /dev/null"], flow: true });
    client.socket.pause();
    const payloads = 300_000;
    const payload = encodeFrame({ type: "stdin", bytes: Uint8Array.of(1) });
    client.sendBytes(Buffer.alloc(payloads * payload.length, payload));
    await eventually("all to be taken", () => client.socket.writableLength === 0);
    await Bun.sleep(300);
    client.socket.resume();
    await client.until(() => client.granted === window + payloads);
    expect(client.frames.length).toBeLessThan(payloads / 2);
    client.send({ type: "stdinEof" });
    expect(await client.exit()).toBe(0);
  });

  test("and ends its side meanwhile is noticed as well", async () => {
    const client = await open({ argv: ["sh", "-c", "echo $$; exec sleep 60"], flow: true });
    const pid = await pidFrom(client);
    // As much as the agent and the kernel take, so that the end of the stream really reaches the agent.
    for (let index = 0; index < 6; index += 1) client.stdin(Buffer.alloc(100_000));
    await settle();
    client.socket.end();
    await eventually("the command to be gone", () => !isAlive(pid), 5_000);
    client.vanish();
  });

  test("and whose command ends is told so", async () => {
    const client = await open({ argv: ["sh", "-c", "sleep 0.3; exit 4"], flow: true });
    for (let index = 0; index < 8; index += 1) client.stdin(Buffer.alloc(maxPayloadBytes));
    expect(await client.exit()).toBe(4);
    await stillAnswers();
  });
});

describe("without flow control", () => {
  test("input of any size arrives, with no window frame", async () => {
    const client = await open({ argv: ["cat"] });
    const input = randomBytes(4 * 2 ** 20);
    for (let sent = 0; sent < input.length; sent += 300_000) client.stdin(input.subarray(sent, sent + 300_000));
    client.send({ type: "stdinEof" });
    expect(await client.exit()).toBe(0);
    expect(client.stdout.equals(input)).toBe(true);
    expect(client.granted).toBe(0);
  });

  test("a command that does not read bounds what the agent takes in", async () => {
    const client = await open({ argv: ["sleep", "60"] });
    const before = residentBytes(agent.pid);
    for (let index = 0; index < 64; index += 1) client.stdin(Buffer.alloc(maxPayloadBytes));
    await Bun.sleep(500);
    expect(residentBytes(agent.pid) - before).toBeLessThan(32 * 2 ** 20);
    expect(client.socket.writableLength).toBeGreaterThan(32 * 2 ** 20);
    client.vanish();
    await stillAnswers();
  });
});

describe("stdinEOF", () => {
  test.each([false, true])(
    "on pipes, closes the command's stdin once queued input is written (flow %p)",
    async (flow) => {
      const client = await open({ argv: ["sh", "-c", "sleep 0.3; wc -c"], flow });
      client.stdin(Buffer.alloc(200_000));
      client.send({ type: "stdinEof" });
      expect(await client.exit()).toBe(0);
      expect(client.stdout.toString().trim()).toBe("200000");
    },
  );

  test.each([false, true])("on pipes, input after it is dropped without credit (flow %p)", async (flow) => {
    const client = await open({ argv: ["cat"], flow });
    client.stdin("before");
    client.send({ type: "stdinEof" });
    client.stdin("after");
    expect(await client.exit()).toBe(0);
    expect(client.stdout.toString()).toBe("before");
    expect(client.granted).toBe(flow ? window + 6 : 0);
  });

  test("on pipes, twice is as good as once", async () => {
    const client = await open({ argv: ["sh", "-c", "cat; sleep 0.2; exit 3"], flow: true });
    client.send({ type: "stdinEof" });
    client.send({ type: "stdinEof" });
    expect(await client.exit()).toBe(3);
  });

  test("on a pty with flow, the terminal stays open: earlier input is written, later input dropped without credit", async () => {
    const script = "stty -echo; echo ready; read a; echo got:$a; read -t 1 b || true; echo end:$b";
    const client = await open({ argv: ["bash", "-c", script], tty: true, flow: true });
    await client.output("ready");
    client.stdin("one\n");
    client.send({ type: "stdinEof" });
    client.stdin("two\n");
    await client.output("got:one");
    expect(await client.exit()).toBe(0);
    expect(client.stdout.toString()).toContain("end:\r\n");
    expect(client.granted - window).toBe(4);
  });

  test("on a pty without flow, it is ignored", async () => {
    const client = await open({ argv: ["sh", "-c", "stty -echo; echo ready; read a; read b; echo $a-$b"], tty: true });
    await client.output("ready");
    client.stdin("one\n");
    client.send({ type: "stdinEof" });
    client.stdin("two\n");
    expect(await client.exit()).toBe(0);
    expect(client.stdout.toString()).toContain("one-two");
  });

  test("on a pty, ^D as input is what ends the command's input", async () => {
    const client = await open({ argv: ["cat"], tty: true, flow: true });
    client.stdin("line\n\x04");
    expect(await client.exit()).toBe(0);
  });
});

test("nothing of all these sessions is left", async () => {
  await eventually("the agent to have no children", () => childrenOf(agent.pid).length === 0);
});

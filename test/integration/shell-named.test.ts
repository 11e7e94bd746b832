import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { ShellError } from "#host/clients/shell/error.ts";
import { openShell, type ShellSession } from "#host/clients/shell/session.ts";
import { dial } from "#host/transport/dial.ts";
import { ports } from "#protocol/ports.ts";
import { encodeFrame } from "#protocol/shell/frames.ts";
import { encodeStart, type ShellStart } from "#protocol/shell/start.ts";
import { runCli } from "#test/host/cli.ts";
import { type LocalAgent, startLocalAgent } from "#test/shell/agent.ts";
import { isAlive } from "#test/shell/processes.ts";
import { RawClient } from "#test/shell/raw-client.ts";

let agent: LocalAgent;

beforeAll(async () => {
  agent = await startLocalAgent();
});

afterAll(() => agent.stop());

async function open(start: ShellStart): Promise<ShellSession> {
  const target = { kind: "unix", directory: agent.directory } as const;
  const session = openShell({ connection: await dial({ target, port: ports.shell }), start });
  session.stderr.resume();
  return session;
}

/** Reads stdout until `done` says that it has enough; the session stays attached. */
async function readUntil(session: ShellSession, done: (text: string) => boolean): Promise<string> {
  let text = "";
  if (done(text)) return text;
  return new Promise((resolve, reject) => {
    session.stdout.on("data", (chunk: Buffer) => {
      text += chunk.toString("latin1");
      if (done(text)) resolve(text);
    });
    session.stdout.on("end", () => reject(new Error(`the output ended at ${JSON.stringify(text.slice(-200))}`)));
  });
}

async function readAll(session: ShellSession): Promise<{ text: string; code: number }> {
  let text = "";
  for await (const chunk of session.stdout) text += (chunk as Buffer).toString("latin1");
  return { text, code: (await session.exit).code };
}

const codeOf = (session: ShellSession): Promise<unknown> =>
  session.exit.then(
    (exit) => exit.code,
    (error: unknown) => (error instanceof ShellError ? `${error.code}: ${error.message}` : error),
  );

describe("a named session", () => {
  test("goes on without its client and gives the next one what it missed", async () => {
    const argv = ["sh", "-c", 'echo one; read line; echo "two $line"; sleep 0.3; echo three; exit 9'];
    const first = await open({ argv, session: "missed" });
    await readUntil(first, (text) => text === "one\n");
    expect(first.position).toBe(4n);
    first.stdin.write("go\n");
    first.disconnect();
    const second = await open({ session: "missed", since: 4 });
    expect(await readAll(second)).toEqual({ text: "two go\nthree\n", code: 9 });
  });

  test("is replayed from its beginning to a client that names no offset", async () => {
    const first = await open({ argv: ["sh", "-c", "echo begun; sleep 30"], session: "replayed" });
    await readUntil(first, (text) => text === "begun\n");
    first.disconnect();
    const second = await open({ session: "replayed" });
    await readUntil(second, (text) => text === "begun\n");
    second.signal(15);
    expect(await codeOf(second)).toBe(143);
  });

  test("keeps its last MiB and says where that starts", async () => {
    const total = 3 * 1024 * 1024;
    const first = await open({ argv: ["sh", "-c", `head -c ${total} /dev/zero; exit 4`], session: "ring" });
    await first.started;
    first.disconnect();
    await Bun.sleep(1_000);
    const second = await open({ session: "ring", since: 0 });
    await second.started;
    const { text, code } = await readAll(second);
    expect(code).toBe(4);
    expect(second.position).toBe(BigInt(total));
    expect(text.length).toBe(1024 * 1024);
  });

  test("is taken over by a second client, and the first is told", async () => {
    const first = await open({ argv: ["cat"], session: "taken" });
    await first.started;
    const second = await open({ session: "taken" });
    expect(await codeOf(first)).toBe("refused: session taken over");
    second.stdin.end("still here\n");
    expect(await readAll(second)).toEqual({ text: "still here\n", code: 0 });
  });

  test("keeps its exit status for a client that asks afterwards", async () => {
    const first = await open({ argv: ["sh", "-c", "echo bye; exit 3"], session: "kept" });
    expect(await readAll(first)).toEqual({ text: "bye\n", code: 3 });
    const second = await open({ session: "kept", since: 0 });
    expect(await readAll(second)).toEqual({ text: "bye\n", code: 3 });
  });

  test("that has ended makes room for a new command under its name", async () => {
    const first = await open({ argv: ["sh", "-c", "echo old"], session: "again" });
    expect((await readAll(first)).text).toBe("old\n");
    const second = await open({ argv: ["sh", "-c", "echo new"], session: "again" });
    expect((await readAll(second)).text).toBe("new\n");
  });

  test("that does not exist cannot be continued", async () => {
    const session = await open({ session: "nobody", since: 0 });
    expect(await codeOf(session)).toBe("refused: no session named nobody");
  });

  test("refuses an offset beyond its output and goes on", async () => {
    const first = await open({ argv: ["cat"], session: "beyond" });
    await first.started;
    const wrong = await open({ session: "beyond", since: 1_000 });
    expect(await codeOf(wrong)).toBe("refused: protocol error: since: 1000 is beyond the session's output of 0 bytes");
    first.stdin.end("fine\n");
    expect(await readAll(first)).toEqual({ text: "fine\n", code: 0 });
  });

  test("on a pty takes the size of the client that attaches", async () => {
    const argv = ["sh", "-c", "stty size; read line; stty size"];
    const first = await open({ argv, session: "sized", tty: true, rows: 30, cols: 100 });
    await readUntil(first, (text) => text === "30 100\r\n");
    first.disconnect();
    const second = await open({ session: "sized", since: 8, tty: true, rows: 40, cols: 120 });
    await second.started;
    second.stdin.write("\n");
    expect((await readAll(second)).text).toEndWith("40 120\r\n");
  });

  test("gives a client's signal way past the input that the one before it left", async () => {
    const argv = ["sh", "-c", "trap 'exit 5' TERM; echo ready; while :; do sleep 0.05; done"];
    const first = await open({ argv, session: "unread" });
    first.exit.catch(() => {});
    await readUntil(first, (text) => text === "ready\n");
    first.stdin.write(Buffer.alloc(300_000));
    await Bun.sleep(300);
    const second = await open({ session: "unread" });
    second.stdin.on("error", () => {});
    second.stdin.write(Buffer.alloc(300_000));
    await readUntil(second, (text) => text === "ready\n");
    await Bun.sleep(100);
    second.signal(15);
    expect(await codeOf(second)).toBe(5);
  });

  test("whose output comes in very many pieces loses none of it to a client that pauses", async () => {
    const pieces = 6_000;
    const script = `
      const { writeSync } = require("node:fs");
      writeSync(1, Buffer.alloc(600_000));
      for (let index = 0; index < ${pieces}; index += 1)
        for (const fd of [1, 2]) { writeSync(fd, "x"); Bun.sleepSync(0.3); }`;
    const client = await RawClient.start(agent.directory, {
      argv: [process.execPath, "-e", script],
      session: "pieces",
    });
    await client.started();
    client.socket.pause();
    await Bun.sleep(6_000);
    client.socket.resume();
    expect(await client.exit()).toBe(0);
    expect([client.stdout.length, client.stderr.length]).toEqual([600_000 + pieces, pieces]);
  });

  test("is over when its command is, though a background child floods a client that is slow", async () => {
    const session = await open({ argv: ["sh", "-c", "yes & exit 4"], session: "flooded" });
    let bytes = 0;
    for await (const chunk of session.stdout) {
      bytes += (chunk as Buffer).length;
      await Bun.sleep(50);
    }
    expect((await session.exit).code).toBe(4);
    expect(bytes).toBeLessThan(4 * 1024 * 1024);
  });

  test("whose name would steer a terminal is listed with its control characters in words", async () => {
    const session = await open({ argv: ["true"], session: "red\x1b[31m" });
    await readAll(session);
    const { stdout } = await runCli(["sessions", agent.target]);
    expect(stdout).toContain("red\\x1b[31m ");
    expect(stdout).not.toContain("\x1b");
  });

  test("that has ended does not signal what may be another's process group by now", async () => {
    const argv = ["sh", "-c", "sleep 30 < /dev/null > /dev/null 2>&1 & echo $!"];
    const first = await open({ argv, session: "over" });
    const child = Number.parseInt((await readAll(first)).text, 10);
    const second = await RawClient.connect(agent.directory);
    const frames = [
      { type: "start", payload: encodeStart({ session: "over", since: 0 }) },
      { type: "signal", number: 15 },
    ] as const;
    second.sendBytes(Buffer.concat(frames.map(encodeFrame)));
    expect(await second.exit()).toBe(0);
    await Bun.sleep(100);
    expect(isAlive(child)).toBe(true);
    process.kill(child, "SIGKILL");
  });

  test("does not run ahead of a client that is attached and does not read, so that nothing falls out of its ring", async () => {
    const session = await open({ argv: ["sh", "-c", "head -c 20000000 /dev/zero; sleep 60"], session: "slow" });
    await session.started;
    await Bun.sleep(500);
    let received = 0;
    session.stdout.on("data", (chunk: Buffer) => {
      received += chunk.length;
    });
    while (received < 20_000_000) await Bun.sleep(20);
    expect(received).toBe(20_000_000);
    session.signal(15);
    expect(await codeOf(session)).toBe(143);
  });
});

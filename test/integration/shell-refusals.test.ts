/** "Sessions that do not run", against a real agent. */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { maxPayloadBytes } from "#protocol/shell/frames.ts";
import type { ShellStart } from "#protocol/shell/start.ts";
import { type LocalAgent, startLocalAgent } from "#test/shell/agent.ts";
import { childrenOf, eventually } from "#test/shell/processes.ts";
import { RawClient } from "#test/shell/raw-client.ts";

setDefaultTimeout(30_000);

let agent: LocalAgent;
let scratch: string;

beforeAll(async () => {
  agent = await startLocalAgent();
  scratch = mkdtempSync(join(tmpdir(), "vmapp-refusals-"));
});

afterAll(async () => {
  await agent.stop();
  rmSync(scratch, { recursive: true, force: true });
});

const open = (start: ShellStart) => RawClient.start(agent.directory, start);

/** The agent still runs commands. Ends every test of what goes wrong. */
async function stillAnswers(): Promise<void> {
  const client = await open({ argv: ["echo", "alive"] });
  expect(await client.exit()).toBe(0);
  expect(client.stdout.toString()).toBe("alive\n");
}

function executable(name: string, content: string | Uint8Array, mode = 0o755): string {
  const path = join(scratch, name);
  writeFileSync(path, content);
  chmodSync(path, mode);
  return path;
}

/** The head of a 64-bit program with a loader; enough for the kernel to refuse it. */
function elf({ machine = process.arch === "arm64" ? 183 : 62, loader = "/lib/ld.so" }): Buffer {
  const file = Buffer.alloc(256);
  file.write("\x7fELF\x02\x01\x01", "latin1");
  file.writeUInt16LE(2, 16);
  file.writeUInt16LE(machine, 18);
  file.writeBigUInt64LE(64n, 32);
  file.writeUInt16LE(64, 52);
  file.writeUInt16LE(56, 54);
  file.writeUInt16LE(1, 56);
  file.writeUInt32LE(3, 64);
  file.writeBigUInt64LE(128n, 72);
  file.writeBigUInt64LE(BigInt(loader.length + 1), 96);
  file.write(loader, 128);
  return file;
}

describe("sessions that do not run", () => {
  test.each([
    [2, "stdin"],
    [3, "stdinEOF"],
    [4, "resize"],
    [5, "signal"],
    [16, "stdout"],
    [200, "an unassigned type"],
  ])("the first frame is type %d (%s): error, and no exit", async (type) => {
    const client = await RawClient.connect(agent.directory);
    client.sendRaw(type, Buffer.alloc(4));
    await client.end();
    expect(client.frames).toEqual([{ type: "error", message: "protocol error: first frame must be start" }]);
    await stillAnswers();
  });

  test.each([
    ["no JSON", "hello", "protocol error: start is not valid JSON"],
    ["an empty payload", "", "protocol error: start is not valid JSON"],
    ["an array", "[]", "protocol error: start: "],
    ["argv of the wrong type", '{"argv":"ls"}', "protocol error: argv: "],
    ["tty of the wrong type", '{"tty":1}', "protocol error: tty: "],
    ["rows over 65535", '{"rows":65536}', "protocol error: rows: "],
    ["cols below 0", '{"cols":-1}', "protocol error: cols: "],
    ["term of the wrong type", '{"term":[]}', "protocol error: term: "],
    ["flow of the wrong type", '{"flow":"on"}', "protocol error: flow: "],
  ])("the start payload is %s: error with the decoder's words", async (_name, payload, message) => {
    const client = await RawClient.startWith(agent.directory, payload);
    await client.end();
    expect(client.order).toEqual(["error"]);
    expect((await client.frame("error")).message).toStartWith(message);
    await stillAnswers();
  });

  test.each([false, true])("argv[0] does not exist: command not found, exit 127, no started (tty %p)", async (tty) => {
    for (const name of ["no-such-command", "/no/such/path", "./nothing"]) {
      const client = await open({ argv: [name, "x"], tty, flow: true });
      expect(await client.exit()).toBe(127);
      expect(client.frames).toEqual([
        { type: "stderr", bytes: Buffer.from(`${name}: command not found\n`) },
        { type: "exit", code: 127 },
      ] as never);
    }
    await stillAnswers();
  });

  test("argv[0] is empty: command not found", async () => {
    const client = await open({ argv: [""] });
    expect(await client.exit()).toBe(127);
    expect(client.stderr.toString()).toBe(": command not found\n");
  });

  test.each([false, true])("any other spawn failure: error `cannot run <argv[0]>: …` (tty %p)", async (tty) => {
    const cases = [
      [executable("no-x-bit", "#!/bin/sh\n", 0o644), "permission denied"],
      [scratch, "is a directory"],
      [executable("no-interpreter", "#!/no/such/interpreter\n"), "interpreter"],
      [executable("closed-interpreter", "#!/etc/passwd\n"), "permission denied"],
      [executable("text", "just text\n"), "exec format error"],
      [executable("empty", ""), "exec format error"],
      [executable("damaged-elf", Buffer.from("\x7fELF but not really", "latin1")), "exec format error"],
      [executable("other-machine", elf({ machine: 8 })), "another processor"],
      [executable("no-loader", elf({ loader: "/no/such/ld.so" })), 'its interpreter "/no/such/ld.so" does not exist'],
    ] as const;
    for (const [path, reason] of cases) {
      const client = await open({ argv: [path], tty, flow: true });
      await client.end();
      expect([path, client.order]).toEqual([path, ["error"]]);
      const { message } = await client.frame("error");
      expect(message).toStartWith(`cannot run ${path}: `);
      expect(message).toContain(reason);
    }
    await stillAnswers();
  });

  test.each([false, true])("a NUL in an argument: error `cannot run …` (tty %p)", async (tty) => {
    for (const argv of [
      ["echo", "a\0b"],
      ["ec\0ho", "a"],
    ]) {
      const client = await open({ argv, tty });
      await client.end();
      expect((await client.frame("error")).message).toStartWith(`cannot run ${argv[0]}: `);
    }
    await stillAnswers();
  });

  test.each([
    ["one that is too long", ["echo", "x".repeat(131_072)]],
    ["too many", ["echo", ...Array.from({ length: 260_000 }, () => "a")]],
  ])("arguments beyond what the kernel takes, %s: error `cannot run …`", async (_case, argv) => {
    for (const tty of [false, true]) {
      const client = await open({ argv, tty });
      await client.end();
      expect([tty, client.order]).toEqual([tty, ["error"]]);
      expect((await client.frame("error")).message).toBe("cannot run echo: argument list too long");
      const longest = await open({ argv: ["sh", "-c", 'printf %s "$1" | wc -c', "sh", "x".repeat(131_071)], tty });
      await longest.exit();
      expect(longest.stdout.toString().trim()).toBe("131071");
    }
    await stillAnswers();
  });

  test("the connection ends before a full first frame: the agent closes without a word", async () => {
    for (const sent of [Buffer.alloc(0), Buffer.of(1), Buffer.of(1, 0, 0, 0, 9, 0x7b)]) {
      const client = await RawClient.connect(agent.directory);
      client.sendBytes(sent);
      client.socket.end();
      await client.end();
      expect(client.frames).toEqual([]);
    }
    await stillAnswers();
  });

  test("the first frame is over 1 MiB: the agent closes without a word, and one of 1 MiB is read", async () => {
    const over = await RawClient.connect(agent.directory);
    over.sendBytes(Buffer.of(1, 0x00, 0x10, 0x00, 0x01));
    await over.end();
    expect(over.frames).toEqual([]);

    const text = '{"argv":["echo","ok"]}';
    const largest = await RawClient.startWith(agent.directory, text + " ".repeat(maxPayloadBytes - text.length));
    expect(await largest.exit()).toBe(0);
    expect(largest.stdout.toString()).toBe("ok\n");
    await stillAnswers();
  });

  test("no refused session leaves a process behind", async () => {
    await eventually("the agent to have no children", () => childrenOf(agent.pid).length === 0);
  });
});

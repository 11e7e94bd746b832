/** "Session sequence", "Frame types", "The start frame" and "Sessions that do not run", against a real agent. */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { encodeFrame, maxPayloadBytes } from "#protocol/shell/frames.ts";
import type { ShellStart } from "#protocol/shell/start.ts";
import { type LocalAgent, startLocalAgent } from "#test/shell/agent.ts";
import { childrenOf, eventually } from "#test/shell/processes.ts";
import { RawClient } from "#test/shell/raw-client.ts";

setDefaultTimeout(30_000);

let agent: LocalAgent;
let scratch: string;

beforeAll(async () => {
  agent = await startLocalAgent();
  scratch = mkdtempSync(join(tmpdir(), "vmapp-sequence-"));
});

afterAll(async () => {
  await agent.stop();
  rmSync(scratch, { recursive: true, force: true });
});

const open = (start: ShellStart) => RawClient.start(agent.directory, start);

async function connectWith(payload: string | Uint8Array): Promise<RawClient> {
  const client = await RawClient.connect(agent.directory);
  client.sendRaw(1, payload);
  return client;
}

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

describe("a session that runs", () => {
  test("with flow: window 262144, started, output, exit, and then the agent closes", async () => {
    const client = await open({ argv: ["echo", "hi"], flow: true });
    expect(await client.exit()).toBe(0);
    expect(client.frames).toEqual([
      { type: "window", bytes: 262_144 },
      { type: "started" },
      { type: "stdout", bytes: Buffer.from("hi\n") },
      { type: "exit", code: 0 },
    ] as never);
    expect(client.pendingBytes).toBe(0);
  });

  test("without flow: no window, not even after input", async () => {
    const client = await open({ argv: ["cat"] });
    client.stdin("some input\n");
    await client.output("some input");
    client.send({ type: "stdinEof" });
    expect(await client.exit()).toBe(0);
    expect(client.order).toEqual(["started", "stdout", "exit"]);
  });

  test("on a pty: window, started, output as stdout alone, exit", async () => {
    const client = await open({ argv: ["sh", "-c", "echo out; echo err >&2; exit 3"], tty: true, flow: true });
    expect(await client.exit()).toBe(3);
    expect(client.order).toEqual(["window", "started", "stdout", "exit"]);
    expect(client.stdout.toString()).toBe("out\r\nerr\r\n");
  });

  test("window and started come before the agent reads what follows the start frame", async () => {
    const client = await RawClient.connect(agent.directory);
    const start = encodeFrame({ type: "start", payload: Buffer.from('{"argv":["cat"],"flow":true}') });
    const input = encodeFrame({ type: "stdin", bytes: Buffer.from("early") });
    client.sendBytes(Buffer.concat([start, input, encodeFrame({ type: "stdinEof" })]));
    expect(await client.exit()).toBe(0);
    expect(client.frames.slice(0, 2).map(({ type }) => type)).toEqual(["window", "started"]);
    expect(client.stdout.toString()).toBe("early");
  });

  test("frames that arrive byte by byte are frames all the same", async () => {
    const client = await RawClient.connect(agent.directory);
    const start = encodeFrame({ type: "start", payload: Buffer.from('{"argv":["cat"]}') });
    const stream = Buffer.concat([
      start,
      encodeFrame({ type: "stdin", bytes: Buffer.from("x") }),
      encodeFrame({ type: "stdinEof" }),
    ]);
    for (const byte of stream) {
      client.sendBytes(Uint8Array.of(byte));
      await Bun.sleep(1);
    }
    expect(await client.exit()).toBe(0);
    expect(client.stdout.toString()).toBe("x");
  });

  test("standard output and standard error are kept apart on pipes, byte for byte", async () => {
    const client = await open({ argv: ["sh", "-c", "printf 'a\\000\\377'; printf 'b\\001\\376' >&2"] });
    await client.exit();
    expect([...client.stdout]).toEqual([0x61, 0, 0xff]);
    expect([...client.stderr]).toEqual([0x62, 1, 0xfe]);
  });

  test("no output frame is larger than 1 MiB, and none is empty", async () => {
    const client = await open({ argv: ["head", "-c", "5000000", "/dev/zero"] });
    await client.exit();
    const sizes = client.frames.flatMap((frame) => (frame.type === "stdout" ? [frame.bytes.length] : []));
    expect(sizes.reduce((sum, size) => sum + size, 0)).toBe(5_000_000);
    expect(Math.max(...sizes)).toBeLessThanOrEqual(maxPayloadBytes);
    expect(Math.min(...sizes)).toBeGreaterThan(0);
  });

  test("nothing follows the exit frame, though a background child goes on writing", async () => {
    const client = await open({ argv: ["sh", "-c", "(while :; do echo more; sleep 0.01; done) & echo done"] });
    const { frames } = await client.end();
    expect(frames.at(-1)).toEqual({ type: "exit", code: 0 });
    expect(frames.filter(({ type }) => type === "exit")).toHaveLength(1);
    client.vanish();
  });

  test("a client that keeps its side open is closed by the agent", async () => {
    const client = await open({ argv: ["true"] });
    await client.end();
    expect(client.frames.at(-1)).toEqual({ type: "exit", code: 0 });
    let gone = false;
    client.socket.on("error", () => {});
    await eventually("the agent's side to be closed", () => {
      if (!client.socket.destroyed) client.socket.write(encodeFrame({ type: "stdinEof" }));
      gone = client.socket.destroyed;
      return gone;
    });
  });
});

describe("the start frame", () => {
  test("argv: empty runs a login shell that reads its input", async () => {
    const client = await open({ argv: [] });
    client.stdin('echo "$0"; exit 5\n');
    expect(await client.exit()).toBe(5);
    // The name is what the contract's argv says; -l makes it a login shell.
    expect(client.stdout.toString()).toContain("/bin/sh\n");
  });

  test("argv: absent and null run the login shell too", async () => {
    for (const payload of ["{}", '{"argv":null}']) {
      const client = await connectWith(payload);
      client.stdin("exit 6\n");
      expect(await client.exit()).toBe(6);
    }
  });

  test("argv: the login shell reads the profile", async () => {
    const home = mkdtempSync(join(scratch, "home-"));
    writeFileSync(join(home, ".profile"), "echo profile was read\n");
    const client = await open({ argv: [], env: { HOME: home } });
    client.stdin("exit\n");
    await client.exit();
    expect(client.stdout.toString()).toContain("profile was read");
  });

  test("argv: the command sees argv[0] as the client wrote it, and every argument", async () => {
    for (const tty of [false, true]) {
      const client = await open({ argv: ["cat", "/proc/self/cmdline"], tty });
      await client.exit();
      expect(client.stdout.toString()).toBe("cat\0/proc/self/cmdline\0");
    }
    const odd = ["printf", "[%s]", "", "a b", "ü☃", "-n", "$HOME", "x\ny"];
    const client = await open({ argv: odd });
    await client.exit();
    expect(client.stdout.toString()).toBe("[][a b][ü☃][-n][$HOME][x\ny]");
  });

  test("argv: argv[0] is looked up in PATH, first match wins, and one that cannot be executed is passed over", async () => {
    const [first, second] = [mkdtempSync(join(scratch, "bin-")), mkdtempSync(join(scratch, "bin-"))];
    for (const [directory, mode] of [
      [first, 0o644],
      [second, 0o755],
    ] as const) {
      writeFileSync(join(directory, "probe-tool"), `#!/bin/sh\necho from ${directory}\n`);
      chmodSync(join(directory, "probe-tool"), mode);
    }
    for (const tty of [false, true]) {
      const client = await open({ argv: ["probe-tool"], tty, env: { PATH: `${first}:${second}` } });
      expect(await client.exit()).toBe(0);
      expect(client.stdout.toString().trim()).toBe(`from ${second}`);
    }
    const plain = await open({ argv: ["probe-tool"] });
    expect(await plain.exit()).toBe(127);
  });

  test("argv: a path with a slash is taken from the working directory, not from PATH", async () => {
    executable("local-tool", "#!/bin/sh\necho local\n");
    for (const tty of [false, true]) {
      const client = await open({ argv: ["./local-tool"], cwd: scratch, tty });
      expect(await client.exit()).toBe(0);
      expect(client.stdout.toString().trim()).toBe("local");
    }
  });

  test("tty: false and absent run on pipes, true on a terminal", async () => {
    for (const [start, isTerminal] of [
      [{}, false],
      [{ tty: false }, false],
      [{ tty: true }, true],
    ] as const) {
      const client = await open({ ...start, argv: ["sh", "-c", "test -t 0 && test -t 1 && test -t 2"] });
      expect((await client.exit()) === 0).toBe(isTerminal);
    }
  });

  test.each([
    [{}, "24 80"],
    [{ rows: 0, cols: 0 }, "24 80"],
    [{ rows: 50 }, "50 80"],
    [{ cols: 132 }, "24 132"],
    [{ rows: 61, cols: 203 }, "61 203"],
    [{ rows: 65_535, cols: 65_535 }, "65535 65535"],
  ])("rows and cols: %j is a terminal of %s from the very first command on", async (size, expected) => {
    const client = await open({ argv: ["stty", "size"], tty: true, ...size });
    expect(await client.exit()).toBe(0);
    expect(client.stdout.toString()).toBe(`${expected}\r\n`);
  });

  test("term: the value of TERM, xterm-256color when it is empty, in both modes", async () => {
    for (const tty of [false, true]) {
      for (const [term, expected] of [
        [undefined, "xterm-256color"],
        ["", "xterm-256color"],
        ["vt100", "vt100"],
      ] as const) {
        const client = await open({ argv: ["printenv", "TERM"], tty, ...(term !== undefined && { term }) });
        await client.exit();
        expect(client.stdout.toString().trim()).toBe(expected);
      }
    }
  });

  test.each([false, true])("the environment is exactly the given one (tty %p)", async (tty) => {
    const client = await open({ argv: ["env"], tty, term: "dumb" });
    await client.exit();
    expect(client.stdout.toString().trim().split(/\r?\n/).sort()).toEqual([
      "HOME=/root",
      "PATH=/usr/sbin:/usr/bin:/sbin:/bin",
      "SHELL=/bin/sh",
      "TERM=dumb",
      "USER=root",
    ]);
  });

  test.each([false, true])("the command runs as root in /root (tty %p)", async (tty) => {
    const client = await open({ argv: ["sh", "-c", "pwd; id -u; id -g"], tty });
    await client.exit();
    expect(client.stdout.toString().trim().split(/\r?\n/)).toEqual(["/root", "0", "0"]);
  });

  test.each([false, true])("the command leads a session and a group of its own (tty %p)", async (tty) => {
    const client = await open({ argv: ["sh", "-c", "echo $$; cat /proc/$$/stat; exit 0"], tty });
    await client.exit();
    const [pid = "", stat = ""] = client.stdout.toString().split(/\r?\n/);
    const [, , , , group, session, terminal, foreground] = stat.replace(/\(.*\)/, "x").split(" ");
    expect([group, session]).toEqual([pid, pid]);
    expect(terminal !== "0").toBe(tty);
    if (tty) expect(Number(foreground)).toBeGreaterThan(0);
  });

  test("the pty is the controlling terminal: /dev/tty opens, and on pipes it does not", async () => {
    for (const [tty, code] of [
      [true, 0],
      [false, 1],
    ] as const) {
      const client = await open({ argv: ["sh", "-c", "(: < /dev/tty) 2>/dev/null || exit 1"], tty });
      expect(await client.exit()).toBe(code);
    }
  });

  test("the command inherits nothing but its three streams", async () => {
    for (const tty of [false, true]) {
      const others = await Promise.all([open({ argv: ["sleep", "5"], tty: true }), open({ argv: ["sleep", "5"] })]);
      await Promise.all(others.map((client) => client.started()));
      const client = await open({ argv: ["sh", "-c", "ls /proc/$$/fd; exit 0"], tty });
      await client.exit();
      const fds = client.stdout.toString().trim().split(/\s+/).map(Number);
      // dash on a terminal keeps one more descriptor of its own, from 10 on.
      expect(fds.filter((fd) => fd < 10)).toEqual([0, 1, 2]);
      for (const other of others) other.vanish();
    }
  });

  test("signals are at their defaults in the command", async () => {
    for (const tty of [false, true]) {
      const client = await open({ argv: ["grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status"], tty });
      await client.exit();
      const masks = [...client.stdout.toString().matchAll(/\t([0-9a-f]{16})/g)].map(([, hex]) => BigInt(`0x${hex}`));
      // glibc keeps 32 and 33 for itself: nobody can set them through it, and an ignored one is inherited for ever.
      expect(masks.map((mask) => mask & ~0x180000000n)).toEqual([0n, 0n]);
    }
  });
});

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
    const client = await connectWith(payload);
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

  test("arguments beyond what the kernel takes: error `cannot run …`", async () => {
    for (const tty of [false, true]) {
      const client = await open({ argv: ["echo", "x".repeat(131_072)], tty });
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
    const largest = await connectWith(text + " ".repeat(maxPayloadBytes - text.length));
    expect(await largest.exit()).toBe(0);
    expect(largest.stdout.toString()).toBe("ok\n");
    await stillAnswers();
  });

  test("no refused session leaves a process behind", async () => {
    await eventually("the agent to have no children", () => childrenOf(agent.pid).length === 0);
  });
});

describe("agent leniency", () => {
  test("unknown frame types and agent's frames in the middle of a session are ignored, the first of them logged", async () => {
    const client = await (await open({ argv: ["cat"] })).started();
    for (const type of [0, 6, 15, 16, 18, 20, 21, 22, 255]) client.sendRaw(type, "whatever");
    client.sendRaw(6, Buffer.alloc(maxPayloadBytes));
    client.stdin("still here\n");
    client.send({ type: "stdinEof" });
    expect(await client.exit()).toBe(0);
    expect(client.stdout.toString()).toBe("still here\n");
    await eventually("a log line of the first", () => agent.log().includes("unknown frame type 0"));
  });

  test("resize and signal of a wrong size are ignored", async () => {
    const client = await (await open({ argv: ["sh", "-c", "read line; stty size"], tty: true })).started();
    for (const size of [0, 1, 2, 3, 5, 8]) client.sendRaw(4, Buffer.alloc(size, 1));
    for (const size of [0, 2, 4]) client.sendRaw(5, Buffer.alloc(size, 15));
    client.stdin("go\n");
    expect(await client.exit()).toBe(0);
    expect(client.stdout.toString()).toContain("24 80");
  });

  test("a second start is ignored", async () => {
    const client = await (await open({ argv: ["cat"] })).started();
    client.sendRaw(1, '{"argv":["echo","second"]}');
    client.stdin("first\n");
    client.send({ type: "stdinEof" });
    expect(await client.exit()).toBe(0);
    expect(client.stdout.toString()).toBe("first\n");
  });

  test("an unknown key in start is ignored", async () => {
    const client = await connectWith('{"future":{"a":1},"argv":["echo","ok"]}');
    expect(await client.exit()).toBe(0);
    expect(client.stdout.toString()).toBe("ok\n");
  });
});

/** "Session sequence" and "Frame types", against a real agent. */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { encodeFrame, maxPayloadBytes } from "#protocol/shell/frames.ts";
import type { ShellStart } from "#protocol/shell/start.ts";
import { type LocalAgent, startLocalAgent } from "#test/shell/agent.ts";
import { eventually } from "#test/shell/processes.ts";
import { RawClient } from "#test/shell/raw-client.ts";

setDefaultTimeout(30_000);

let agent: LocalAgent;

beforeAll(async () => {
  agent = await startLocalAgent();
});

afterAll(() => agent.stop());

const open = (start: ShellStart) => RawClient.start(agent.directory, start);

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
    const client = await RawClient.startWith(agent.directory, '{"future":{"a":1},"argv":["echo","ok"]}');
    expect(await client.exit()).toBe(0);
    expect(client.stdout.toString()).toBe("ok\n");
  });
});

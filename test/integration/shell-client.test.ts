/** The client's end: strictness, credit, and "Client results", against agents that do right and wrong on purpose. */
import { describe, expect, setDefaultTimeout, test } from "bun:test";
import { ShellError } from "#host/clients/shell/error.ts";
import type { ShellSession } from "#host/clients/shell/session.ts";
import { Guest } from "#host/guest.ts";
import { eventually } from "#test/shell/processes.ts";
import { ScriptedAgent, type ScriptedPeer } from "#test/shell/scripted-agent.ts";

setDefaultTimeout(30_000);

const window = { type: "window", bytes: 262_144 } as const;
const started = { type: "started" } as const;

async function open(agent: ScriptedAgent): Promise<ShellSession> {
  const session = await Guest.connect(agent.target).shell({ argv: ["whatever"] });
  session.stdin.on("error", () => {});
  return session;
}

async function failure(promise: Promise<unknown>): Promise<ShellError> {
  const error = await promise.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  expect(error).toBeInstanceOf(ShellError);
  return error as ShellError;
}

async function textOf(stream: AsyncIterable<Buffer>): Promise<string> {
  const pieces: Buffer[] = [];
  for await (const piece of stream) pieces.push(piece);
  return Buffer.concat(pieces).toString();
}

const settle = () => Bun.sleep(100);

describe("what a client sends", () => {
  test("start first, with flow true", async () => {
    await using agent = new ScriptedAgent(() => {});
    const session = await open(agent);
    await eventually("the start frame", () => agent.peer.received.length > 0);
    expect(agent.peer.received[0]?.type).toBe(1);
    expect(JSON.parse(Buffer.from(agent.peer.received[0]?.payload ?? []).toString())).toEqual({
      argv: ["whatever"],
      flow: true,
    });
    session.disconnect();
  });

  test("no stdin before window or started, not even its end", async () => {
    await using agent = new ScriptedAgent(() => {});
    const session = await open(agent);
    session.stdin.end("early");
    await settle();
    expect(agent.peer.received.map(({ type }) => type)).toEqual([1]);
    agent.peer.send(window, started);
    await eventually("stdin and its end", () => agent.peer.received.length === 3);
    expect(agent.peer.received.map(({ type }) => type)).toEqual([1, 2, 3]);
    session.disconnect();
  });

  test("never more than its credit, in payloads of at most 64 KiB, and all of it as credit comes", async () => {
    await using agent = new ScriptedAgent((peer) => peer.send({ type: "window", bytes: 100_000 }, started));
    const session = await open(agent);
    session.stdin.end(Buffer.alloc(1_000_000));
    await eventually("the first credit's worth", () => agent.peer.stdinBytes === 100_000);
    let granted = 100_000;
    for (const bytes of [1, 65_536, 0, 300_000, 534_463]) {
      await settle();
      expect(agent.peer.stdinBytes).toBe(granted);
      agent.peer.send({ type: "window", bytes });
      granted += bytes;
    }
    await eventually("the end of stdin", () => agent.peer.received.at(-1)?.type === 3);
    expect(agent.peer.stdinBytes).toBe(1_000_000);
    expect(Math.max(...agent.peer.stdinSizes)).toBeLessThanOrEqual(65_536);
    expect(agent.peer.received.filter(({ type }) => type === 3)).toHaveLength(1);
    session.disconnect();
  });

  test("to an older agent, which sends started alone, stdin without a limit", async () => {
    await using agent = new ScriptedAgent((peer) => peer.send(started));
    const session = await open(agent);
    session.stdin.end(Buffer.alloc(2_000_000));
    await eventually("all of it", () => agent.peer.received.at(-1)?.type === 3);
    expect(agent.peer.stdinBytes).toBe(2_000_000);
    session.disconnect();
  });

  test("resize and signal to the letter", async () => {
    await using agent = new ScriptedAgent((peer) => peer.send(window, started));
    const session = await open(agent);
    await session.started;
    session.resize({ rows: 24, cols: 80 });
    session.signal(15);
    await eventually("both frames", () => agent.peer.received.length === 3);
    expect(agent.peer.received.slice(1).map(({ type, payload }) => [type, [...payload]])).toEqual([
      [4, [0, 24, 0, 80]],
      [5, [15]],
    ]);
    session.disconnect();
  });
});

describe("client results", () => {
  test("exit: the code, once all output was handed over; what follows is not looked at", async () => {
    await using agent = new ScriptedAgent((peer) => {
      peer.send(window, started, { type: "stdout", bytes: Buffer.from("out") });
      peer.send({ type: "stderr", bytes: Buffer.from("err") }, { type: "exit", code: -7 }, started);
    });
    const session = await open(agent);
    const [exit, out, err] = await Promise.all([session.exit, textOf(session.stdout), textOf(session.stderr)]);
    expect([exit.code, out, err]).toEqual([-7, "out", "err"]);
  });

  test("command not found: stderr and exit 127 without started", async () => {
    await using agent = new ScriptedAgent((peer) =>
      peer.send({ type: "stderr", bytes: Buffer.from("x: command not found\n") }, { type: "exit", code: 127 }),
    );
    const session = await open(agent);
    expect(await textOf(session.stderr)).toBe("x: command not found\n");
    expect(await session.exit).toEqual({ code: 127 });
  });

  test("error: refused, with the agent's message", async () => {
    await using agent = new ScriptedAgent((peer) => peer.send({ type: "error", message: "cannot run x: busy" }));
    const session = await open(agent);
    expect(await failure(session.exit)).toMatchObject({ code: "refused", message: "cannot run x: busy" });
    expect(await failure(session.started)).toMatchObject({ code: "refused" });
  });

  test("a close without exit after started: the VM stopped or restarted", async () => {
    await using agent = new ScriptedAgent((peer) => {
      peer.send(window, started);
      setTimeout(() => peer.socket.destroy(), 50);
    });
    const session = await open(agent);
    expect(await failure(session.exit)).toMatchObject({
      code: "closed",
      message: "connection to the VM closed (VM stopped or restarted?)",
    });
  });

  test("a half-close without exit is a close", async () => {
    await using agent = new ScriptedAgent((peer) => {
      peer.send(window, started);
      peer.socket.end();
    });
    expect(await failure((await open(agent)).exit)).toMatchObject({ code: "closed" });
  });

  test("a close without exit before started: the agent may be older than the client", async () => {
    await using agent = new ScriptedAgent((peer) => setTimeout(() => peer.socket.destroy(), 20));
    const session = await open(agent);
    const error = await failure(session.exit);
    expect(error.code).toBe("closed");
    expect(error.message).toContain("before the command started");
    expect(error.message).toContain("older");
  });

  test("a close in the middle of a frame is a close", async () => {
    await using agent = new ScriptedAgent((peer) => {
      peer.send(window, started);
      peer.sendBytes(Uint8Array.of(18, 0, 0, 0, 4, 0));
      setTimeout(() => peer.socket.destroy(), 20);
    });
    expect(await failure((await open(agent)).exit)).toMatchObject({ code: "closed" });
  });
});

describe("client strictness", () => {
  const wrong: readonly (readonly [string, (peer: ScriptedPeer) => void])[] = [
    ["an unknown type", (peer) => peer.sendRaw(23, "x")],
    ["type 0", (peer) => peer.sendRaw(0)],
    ["type 255", (peer) => peer.sendRaw(255)],
    ["exit of 3 bytes", (peer) => peer.sendRaw(18, "abc")],
    ["exit of 5 bytes", (peer) => peer.sendRaw(18, "abcde")],
    ["window of 3 bytes", (peer) => peer.sendRaw(21, "abc")],
    ["window of 8 bytes", (peer) => peer.sendRaw(21, "abcdefgh")],
    ["resize of 3 bytes", (peer) => peer.sendRaw(4, "abc")],
    ["signal of 2 bytes", (peer) => peer.sendRaw(5, "ab")],
    ["a frame over 1 MiB", (peer) => peer.sendBytes(Uint8Array.of(16, 0, 0x10, 0, 1))],
    ["a client's frame", (peer) => peer.sendRaw(2, "x")],
  ];

  test.each(wrong)("%s from the agent ends the session as a protocol error", async (_name, send) => {
    await using agent = new ScriptedAgent((peer) => {
      peer.send(window, started, { type: "stdout", bytes: Buffer.from("so far") });
      send(peer);
      peer.send({ type: "exit", code: 0 });
    });
    const session = await open(agent);
    expect(await textOf(session.stdout)).toBe("so far");
    const error = await failure(session.exit);
    expect(error.code).toBe("protocol");
    expect(error.message).toStartWith("the agent broke the shell protocol: ");
    await eventually("the client to have gone", () => agent.peer.ended);
  });
});

describe("a client whose reader is behind", () => {
  test("stops reading from the connection, and goes on when it is read again", async () => {
    const chunk = Buffer.alloc(65_536, 0x61);
    await using agent = new ScriptedAgent((peer) => {
      peer.send(window, started);
      for (let index = 0; index < 320; index += 1) peer.send({ type: "stdout", bytes: chunk });
      peer.send({ type: "exit", code: 0 });
    });
    const session = await open(agent);
    await Bun.sleep(300);
    expect(agent.peer.socket.writableLength).toBeGreaterThan(10 * 2 ** 20);
    const [text, exit] = await Promise.all([textOf(session.stdout), session.exit]);
    expect(text.length).toBe(320 * 65_536);
    expect(exit.code).toBe(0);
  });

  test("one stream that nobody wants may be destroyed, and the other goes on", async () => {
    const chunk = Buffer.alloc(65_536, 0x61);
    await using agent = new ScriptedAgent((peer) => {
      peer.send(window, started);
      for (let index = 0; index < 40; index += 1) peer.send({ type: "stderr", bytes: chunk });
      peer.send({ type: "stdout", bytes: Buffer.from("wanted") }, { type: "exit", code: 0 });
    });
    const session = await open(agent);
    session.stderr.destroy();
    expect(await textOf(session.stdout)).toBe("wanted");
    expect(await session.exit).toEqual({ code: 0 });
  });
});

test("a start that no frame can carry fails the session, and closes its connection", async () => {
  await using agent = new ScriptedAgent(() => {});
  const session = await Guest.connect(agent.target).shell({ argv: ["echo", "x".repeat(1 << 20)] });
  const error = await failure(session.exit);
  expect(error.code).toBe("refused");
  expect(error.message).toStartWith("the command and its environment cannot be sent: a payload of ");
  await eventually("the connection to be closed", () => agent.peer.ended);
  expect(agent.peer.received).toEqual([]);
});

test("what a client writes after the session's end is dropped, not an error that nobody handles", async () => {
  await using agent = new ScriptedAgent((peer) => peer.send(window, started, { type: "exit", code: 0 }));
  const session = await open(agent);
  await session.exit;
  session.resize({ rows: 1, cols: 1 });
  session.signal(2);
  await new Promise<void>((resolve) => session.stdin.end("late", () => resolve()));
});

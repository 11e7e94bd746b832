import { describe, expect, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Binary } from "bson";
import { Console } from "#host/clients/console/console.ts";
import { Images } from "#host/clients/console/images.ts";
import { dial } from "#host/transport/dial.ts";
import { parseTarget } from "#host/transport/target.ts";
import { ports, unixSocketName } from "#protocol/ports.ts";
import { type RawDocument, RawPeer } from "#test/console/raw-peer.ts";
import { serverCommand } from "#test/console/servers.ts";
import { startLocalAgent } from "#test/shell/agent.ts";

const text = (bytes: Uint8Array) => Buffer.from(bytes).toString();

/** A server that does what a test says, on a socket where a guest's console port would be. */
interface Scripted extends AsyncDisposable {
  readonly directory: string;
  /** everything that the client has sent */
  readonly received: RawDocument[];
}

async function scripted(
  play: (peer: RawPeer, socket: Socket, received: RawDocument[]) => Promise<void>,
): Promise<Scripted> {
  const directory = mkdtempSync(join(tmpdir(), "vmapp-console-"));
  const received: RawDocument[] = [];
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    socket.on("error", () => socket.destroy());
    void play(new RawPeer(socket, socket), socket, received);
  });
  await new Promise<void>((resolve) => server.listen(join(directory, unixSocketName(ports.console)), resolve));
  return {
    directory,
    received,
    async [Symbol.asyncDispose]() {
      server.close();
      rmSync(directory, { recursive: true, force: true });
    },
  };
}

const result = (id: unknown, method: string, value: object) => ({ jsonrpc: "2.0", id, method, result: value });
const empty = { code: 0, stdout: new Binary(), stderr: new Binary(), truncated: false };

async function connect(directory: string) {
  const target = parseTarget(`unix:${directory}`);
  if (target.kind === "name") throw new Error("not an address");
  return { connection: await dial({ target, port: ports.console }) };
}

describe("a client", () => {
  test("sends init first, counts its calls from zero and gives notifications no number", async () => {
    await using server = await scripted(async (peer, _socket, received) => {
      for (let message = await peer.receive(); message !== undefined; message = await peer.receive()) {
        received.push(message);
        if (message.method === "init") peer.send(result(message.id, "init", { cwd: "/" }));
        if (message.method === "exec") peer.send(result(message.id, "exec", empty));
      }
    });
    const session = await Console.open({ server: await connect(server.directory) });
    await session.start();
    await session.exec(["true"]);
    await session.stop();
    await session.close();
    await session.close();
    await Bun.sleep(50);
    expect(server.received.map(({ id, method }) => [id, method])).toEqual([
      [0, "init"],
      [undefined, "start"],
      [1, "exec"],
      [undefined, "stop"],
      [undefined, "quit"],
    ]);
    expect(server.received[0]?.params).toEqual({});
  });

  test("tells a refusal, after which it goes on, from a broken channel, after which nothing does", async () => {
    await using server = await scripted(async (peer, socket) => {
      const init = await peer.receive();
      peer.send(result(init?.id, "init", {}));
      const refused = await peer.receive();
      peer.send({ jsonrpc: "2.0", id: refused?.id, error: { code: -32000, message: "killed after 1ms" } });
      const answered = await peer.receive();
      peer.send(result(answered?.id, "exec", empty));
      await peer.receive();
      socket.end();
    });
    const session = await Console.open({ server: await connect(server.directory) });
    expect(session.cwd).toBeUndefined();
    await expect(session.exec(["a"])).rejects.toMatchObject({
      name: "ConsoleRefusedError",
      kind: "timedOut",
      method: "exec",
      code: -32000,
      message: "killed after 1ms",
    });
    expect((await session.exec(["b"])).code).toBe(0);
    const broken = {
      name: "ConsoleBrokenError",
      message: "the console server closed the channel before answering request 3",
    };
    await expect(session.exec(["c"])).rejects.toMatchObject(broken);
    await expect(session.exec(["d"])).rejects.toMatchObject(broken);
    await expect(session.start()).rejects.toMatchObject(broken);
  });

  test("drops an answer that nobody waits for and says so", async () => {
    const strays: string[] = [];
    await using server = await scripted(async (peer) => {
      const init = await peer.receive();
      peer.send(result(99, "init", { cwd: "/wrong" }));
      peer.send({ jsonrpc: "2.0", id: 98, error: { code: 1, message: "x" } });
      peer.send(result(init?.id, "init", { cwd: "/right" }));
    });
    const session = await Console.open({
      server: await connect(server.directory),
      onStray: (message) => void strays.push(message),
    });
    expect(session.cwd).toBe("/right");
    expect(strays.length).toBe(2);
    expect(strays[0]).toContain("99");
  });

  for (const [name, message] of [
    ["a request", { jsonrpc: "2.0", id: 0, method: "version", params: {} }],
    ["a notification", { jsonrpc: "2.0", method: "stop" }],
    ["something that is no message", { jsonrpc: "2.0", id: 0, method: "init", result: { cwd: 5 } }],
  ] as const) {
    test(`answers nothing: ${name} from the server breaks the channel`, async () => {
      await using server = await scripted(async (peer, _socket, received) => {
        await peer.receive();
        peer.send(message);
        for (let next = await peer.receive(); next !== undefined; next = await peer.receive()) received.push(next);
      });
      const opening = Console.open({ server: await connect(server.directory) });
      await expect(opening).rejects.toMatchObject({ name: "ConsoleBrokenError" });
      await Bun.sleep(50);
      expect(server.received).toEqual([]);
    });
  }

  test("takes a result of another method under its number for a refusal", async () => {
    await using server = await scripted(async (peer) => {
      const init = await peer.receive();
      peer.send(result(init?.id, "init", {}));
      const exec = await peer.receive();
      peer.send(result(exec?.id, "write", { size: 1 }));
    });
    const session = await Console.open({ server: await connect(server.directory) });
    await expect(session.exec(["x"])).rejects.toMatchObject({ name: "ConsoleRefusedError", code: -32603 });
  });

  test("never uses the number of a failed call again", async () => {
    await using server = await scripted(async (peer, _socket, received) => {
      for (let message = await peer.receive(); message !== undefined; message = await peer.receive()) {
        received.push(message);
        peer.send(result(message.id, String(message.method), message.method === "init" ? {} : { size: 1 }));
      }
    });
    const session = await Console.open({ server: await connect(server.directory) });
    await expect(session.write("/x", Buffer.alloc(64 * 1024 * 1024))).rejects.toThrow("exceeds the limit");
    expect(await session.write("/x", Buffer.alloc(1))).toBe(1);
    expect(server.received.map(({ id }) => id)).toEqual([0, 2]);
  });

  test("gives up on a server that does not answer in time", async () => {
    await using server = await scripted(async (peer) => {
      const init = await peer.receive();
      peer.send(result(init?.id, "init", {}));
    });
    const session = await Console.open({ server: await connect(server.directory), answerWithinMs: 200 });
    await expect(session.read("/x")).rejects.toMatchObject({
      name: "ConsoleBrokenError",
      message: expect.stringContaining("request 1 (read) within 200 ms"),
    });
  });

  test("says quit at once and still hears the answer of the call that is under way", async () => {
    await using agent = await localAgent();
    for (const server of [await connect(agent.directory), { command: serverCommand }]) {
      const session = await Console.open({ server });
      const run = session.exec(["sh", "-c", "sleep 0.5; echo owed"]);
      await Bun.sleep(100);
      await session.close();
      expect(text((await run).stdout)).toBe("owed\n");
    }
  });

  test("leaves without a quit when the server will not have its session", async () => {
    await using server = await scripted(async (peer, _socket, received) => {
      const init = await peer.receive();
      peer.send({ jsonrpc: "2.0", id: init?.id, error: { code: -32008, message: "no" } });
      for (let next = await peer.receive(); next !== undefined; next = await peer.receive()) received.push(next);
      received.push({ ended: true });
    });
    await expect(Console.open({ server: await connect(server.directory) })).rejects.toMatchObject({ code: -32008 });
    for (let round = 0; round < 50 && server.received.length === 0; round++) await Bun.sleep(10);
    expect(server.received).toEqual([{ ended: true }]);
  });

  test("asks in the order in which it was called, one call at a time", async () => {
    await using agent = await localAgent();
    await using session = await Console.open({ server: await connect(agent.directory) });
    const runs = ["sleep 0.2; echo a", "echo b", "echo c"].map((line) => session.exec(["sh", "-c", line]));
    expect((await Promise.all(runs)).map(({ stdout }) => text(stdout))).toEqual(["a\n", "b\n", "c\n"]);
  });
});

async function localAgent() {
  const agent = await startLocalAgent();
  return { directory: agent.directory, [Symbol.asyncDispose]: () => agent.stop() };
}

describe("a server that is started by its client", () => {
  test("is started when the session is opened, and not when there is no such program", async () => {
    for (const command of [["/no/such/program"], []]) {
      await expect(Console.open({ server: { command } })).rejects.toMatchObject({
        name: "ConsoleBrokenError",
        message: expect.stringContaining("cannot start the console server"),
      });
    }
  });

  test("is no server when it only repeats what it hears", async () => {
    await expect(Console.open({ server: { command: ["cat", "-u"] } })).rejects.toMatchObject({
      name: "ConsoleBrokenError",
    });
  });

  test("says how it ended, once", async () => {
    const command = ["sh", "-c", `${serverCommand.map((word) => `'${word}'`).join(" ")}; exit 3`];
    const session = await Console.open({ server: { command } });
    expect((await session.exec(["true"])).code).toBe(0);
    const closing = session.close();
    await expect(closing).rejects.toMatchObject({
      name: "ConsoleBrokenError",
      message: "the console server ended with status 3",
    });
    expect(session.close()).toBe(closing);
    await expect(session.exec(["true"])).rejects.toMatchObject({ name: "ConsoleBrokenError" });
  });

  test("whose session goes out of scope is ended", async () => {
    let pid: string;
    {
      await using session = await Console.open({ server: { command: serverCommand } });
      pid = text((await session.exec(["sh", "-c", "echo $PPID"])).stdout).trim();
      expect(await Bun.file(`/proc/${pid}/stat`).exists()).toBe(true);
    }
    expect(await Bun.file(`/proc/${pid}/stat`).exists()).toBe(false);
  });

  test("lists its images, which for an agent are none, and says its protocol's version", async () => {
    await using images = await Images.open({ server: { command: serverCommand } });
    expect(images.version).toBe("1");
    expect(await images.list()).toEqual([]);
    await expect(images.build({ base: "scratch", steps: [] }, "a:b")).rejects.toMatchObject({ code: -32011 });
    await expect(images.remove({ type: "ref", ref: "a:b" })).rejects.toMatchObject({ code: -32602 });
    await images.close();
  });
});

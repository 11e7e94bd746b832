import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { createHash, randomBytes } from "node:crypto";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { createServer, type Server, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { Connection } from "#host/transport/connection.ts";
import { type DialOptions, dial } from "#host/transport/dial.ts";
import { TransportError } from "#host/transport/error.ts";

let directory: string;
const servers: Server[] = [];
const sockets = new Set<Socket>();
const connections: Connection[] = [];

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "vmapp-dial-"));
});
afterEach(() => {
  for (const connection of connections.splice(0)) connection.socket.destroy();
  for (const socket of sockets) socket.destroy();
  sockets.clear();
  for (const server of servers.splice(0)) server.close();
  rmSync(directory, { recursive: true, force: true });
});

async function serve(path: string, onConnection: (socket: Socket) => void): Promise<void> {
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    sockets.add(socket);
    socket.on("error", () => {});
    onConnection(socket);
  });
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(path, resolve));
}

async function open(options: DialOptions): Promise<Connection> {
  const connection = await dial(options);
  connections.push(connection);
  return connection;
}

async function refusal(options: DialOptions): Promise<TransportError> {
  try {
    await open(options);
  } catch (error) {
    if (error instanceof TransportError) return error;
    throw error;
  }
  throw new Error("it connected");
}

async function readToEnd(connection: Connection): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of connection.socket as AsyncIterable<Buffer>) chunks.push(chunk);
  return Buffer.concat(chunks);
}

const hybrid = () => ({ kind: "hybrid", path: join(directory, "v.sock") }) as const;

/** A hybrid socket that answers `CONNECT` lines as it is told, and says which ports were asked for. */
async function serveHybrid(answer: (socket: Socket, port: string) => void): Promise<string[]> {
  const asked: string[] = [];
  await serve(hybrid().path, (socket) => {
    let line = "";
    socket.on("data", function take(chunk: Buffer) {
      line += chunk.toString("latin1");
      if (!line.includes("\n")) return;
      socket.off("data", take);
      asked.push(line);
      answer(socket, line.split(" ")[1]?.trim() ?? "");
    });
  });
  return asked;
}

describe("the hybrid transport", () => {
  test("asks for the port in one line and takes exactly the answer's line, however it is cut", async () => {
    const greeting = Buffer.concat([
      Buffer.from("OK 1073741824\n"),
      Buffer.from([0, 0x0a, 0xff]),
      Buffer.from("OK 2\n"),
    ]);
    let cut = 0;
    const asked = await serveHybrid((socket) => {
      socket.write(greeting.subarray(0, cut));
      setTimeout(() => socket.end(greeting.subarray(cut)), 2);
    });
    for (cut = 0; cut <= greeting.length; cut++) {
      const connection = await open({ target: hybrid(), port: 1027 });
      expect(connection.halfClose).toBe(false);
      expect(await readToEnd(connection)).toEqual(Buffer.from([0, 0x0a, 0xff, ...Buffer.from("OK 2\n")]));
    }
    expect(new Set(asked)).toEqual(new Set(["CONNECT 1027\n"]));
  });

  test("takes an answer that comes one byte at a time", async () => {
    await serveHybrid(async (socket) => {
      for (const byte of Buffer.from("OK 7\nhello")) {
        socket.write(Buffer.from([byte]));
        await sleep(1);
      }
      socket.end();
    });
    expect((await readToEnd(await open({ target: hybrid(), port: 1 }))).toString()).toBe("hello");
  });

  test("bytes that wait for a reader who comes late are not lost", async () => {
    const payload = randomBytes(300_000);
    await serveHybrid((socket) => {
      socket.write("OK 7\n");
      socket.end(payload);
    });
    const connection = await open({ target: hybrid(), port: 1 });
    await sleep(50);
    expect(
      createHash("sha256")
        .update(await readToEnd(connection))
        .digest("hex"),
    ).toBe(createHash("sha256").update(payload).digest("hex"));
  });

  test("a port without a listener is refused, by a message that names port and target", async () => {
    await serveHybrid((socket, port) => (port === "1" ? socket.end("OK 1\n") : socket.destroy()));
    const error = await refusal({ target: hybrid(), port: 4242 });
    expect(error.code).toBe("refused");
    expect(error.port).toBe(4242);
    expect(error.message).toContain("4242");
    expect(error.message).toContain(hybrid().path);
    await open({ target: hybrid(), port: 1 });
  });

  test.each(["NO\n", "OK\n", "OK x\n", "OK 1 \n", "HTTP/1.1 400 Bad Request\r\n\r\n", "x".repeat(100_000)])(
    "an answer that is none (%.20s) is told, not waited for",
    async (answer) => {
      await serveHybrid((socket, port) => socket.write(port === "1" ? "OK 1\n" : answer));
      const error = await refusal({ target: hybrid(), port: 2 });
      expect(error.code).toBe("protocol");
      expect(error.message.length).toBeLessThan(400);
      await open({ target: hybrid(), port: 1 });
    },
  );

  test("a server that never answers is given up at the deadline, and its connection closed", async () => {
    const closed = Promise.withResolvers<void>();
    await serveHybrid((socket) => socket.once("end", () => closed.resolve()).resume());
    const error = await refusal({ target: hybrid(), port: 1, timeoutMs: 50 });
    expect(error.code).toBe("timeout");
    await closed.promise;
  });

  test("a caller's signal ends the wait, before it and during it", async () => {
    const closed = Promise.withResolvers<void>();
    await serveHybrid((socket) => socket.once("end", () => closed.resolve()).resume());
    const controller = new AbortController();
    setTimeout(() => controller.abort(), 20);
    expect((await refusal({ target: hybrid(), port: 1, signal: controller.signal })).code).toBe("aborted");
    await closed.promise;
    expect((await refusal({ target: hybrid(), port: 1, signal: AbortSignal.abort() })).code).toBe("aborted");
  });

  test("no socket there, or a stale one, is unreachable", async () => {
    const missing = await refusal({ target: hybrid(), port: 1 });
    expect(missing.code).toBe("unreachable");
    expect(missing.message).toContain(hybrid().path);
    const child = Bun.spawn([
      process.execPath,
      "-e",
      `require("node:net").createServer().listen(${JSON.stringify(hybrid().path)}, () => process.kill(process.pid, 9))`,
    ]);
    await child.exited;
    expect((await refusal({ target: hybrid(), port: 1 })).code).toBe("unreachable");
  });

  test("finishing sends the last bytes whole and closes", async () => {
    const received = Promise.withResolvers<Buffer>();
    await serveHybrid((socket) => {
      socket.write("OK 1\n");
      const chunks: Buffer[] = [];
      socket.on("data", (chunk) => chunks.push(chunk));
      socket.once("end", () => received.resolve(Buffer.concat(chunks)));
    });
    const connection = await open({ target: hybrid(), port: 1 });
    const payload = randomBytes(5_000_000);
    connection.socket.write(payload);
    await connection.finish(Buffer.from("tail"));
    expect(connection.socket.destroyed).toBe(true);
    const all = await received.promise;
    expect(all.equals(Buffer.concat([payload, Buffer.from("tail")]))).toBe(true);
  });
});

describe("the unix transport", () => {
  const unix = () => ({ kind: "unix", directory }) as const;

  test("dials the socket of the port, and half-close works", async () => {
    await serve(join(directory, "1027.sock"), (socket) => {
      const chunks: Buffer[] = [];
      socket.on("data", (chunk) => chunks.push(chunk));
      socket.once("end", () => socket.end(`got ${Buffer.concat(chunks)}`));
    });
    const connection = await open({ target: unix(), port: 1027 });
    expect(connection.halfClose).toBe(true);
    connection.socket.end("request");
    expect((await readToEnd(connection)).toString()).toBe("got request");
  });

  test("a port without a socket is refused; a directory that is not there is unreachable", async () => {
    expect((await refusal({ target: unix(), port: 9 })).code).toBe("refused");
    const error = await refusal({ target: { kind: "unix", directory: join(directory, "none") }, port: 9 });
    expect(error.code).toBe("unreachable");
    expect(error.message).toContain(join(directory, "none"));
  });

  test("a path longer than a socket's can be is told, with its length", async () => {
    const long = join(directory, "x".repeat(100));
    const error = await refusal({ target: { kind: "unix", directory: long }, port: 1027 });
    expect(error.code).toBe("unreachable");
    expect(error.message).toContain("at most 107");
  });

  test("a thousand dials to missing ports leave no descriptor behind", async () => {
    const count = () => readdirSync("/proc/self/fd").length;
    await refusal({ target: unix(), port: 9 });
    const before = count();
    for (let index = 0; index < 1000; index++) await refusal({ target: unix(), port: 9 });
    expect(count()).toBeLessThanOrEqual(before + 2);
  });
});

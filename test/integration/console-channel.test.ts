import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Binary, BSON, Long } from "bson";
import { maxPayload } from "#protocol/console/limits.ts";
import { socketPeer, stdioServer } from "#test/console/servers.ts";
import { type LocalAgent, startLocalAgent } from "#test/shell/agent.ts";

let agent: LocalAgent;
beforeAll(async () => {
  agent = await startLocalAgent();
});
afterAll(async () => {
  await agent?.stop();
});

/** Another connection is served as if nothing had happened. */
async function agentStillServes(): Promise<void> {
  using other = await socketPeer(agent.directory);
  expect(await other.peer.call("exec", { cmd: ["echo", "hi"] })).toMatchObject({
    result: { stdout: Buffer.from("hi\n") },
  });
}

const header = (length: number) => {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(length);
  return bytes;
};

describe("a request that is refused", () => {
  test("is answered under its own id, and the channel goes on", async () => {
    using connection = await socketPeer(agent.directory);
    const { peer } = connection;
    const cases: [object, number][] = [
      [{ jsonrpc: "1.0", id: 7, method: "version" }, -32600],
      [{ id: 7, method: "version" }, -32600],
      [{ jsonrpc: "2.0", id: 7, method: "quit" }, -32600],
      [{ jsonrpc: "2.0", id: 7 }, -32600],
      [{ jsonrpc: "2.0", id: 7, method: "commit" }, -32601],
      [{ jsonrpc: "2.0", id: 7, method: "exec", params: { cmd: "ls" } }, -32602],
      [{ jsonrpc: "2.0", id: 7, method: "exec", params: { cmd: [] } }, -32602],
      [{ jsonrpc: "2.0", id: 7, method: "init", params: { mounts: ["/srv:/x"] } }, -32602],
      [{ jsonrpc: "2.0", id: 7, method: "init", params: { ports: ["0:80"] } }, -32602],
    ];
    for (const [document, code] of cases) {
      peer.send(document as Record<string, unknown>);
      expect(await peer.receive()).toMatchObject({ jsonrpc: "2.0", id: 7, error: { code } });
    }
    expect(await peer.call("version")).toMatchObject({ method: "version", result: { version: "1" } });
  });

  test("without a usable id is ignored, and so is a response", async () => {
    using connection = await socketPeer(agent.directory);
    const { peer } = connection;
    peer.send({ jsonrpc: "2.0", method: "exec", params: { cmd: ["false"] } });
    peer.send({ jsonrpc: "2.0", id: "text", method: "version" });
    peer.send({ jsonrpc: "2.0", id: 3.5, method: "version" });
    peer.send({ jsonrpc: "2.0", id: 1, method: "version", result: { version: "9" } });
    peer.send({ jsonrpc: "2.0", id: 1, error: { code: 1, message: "no" } });
    expect(await peer.call("version")).toMatchObject({ id: 0, result: { version: "1" } });
  });

  test("without a usable id is told of once and then counted, however often it comes", async () => {
    await using server = stdioServer();
    for (let round = 0; round < 1000; round++) server.peer.send({ jsonrpc: "2.0", method: "unknown" });
    expect(await server.peer.call("version")).toMatchObject({ result: { version: "1" } });
    server.peer.notify("quit");
    expect(await server.ended).toBe(0);
    const lines = server.log().trim().split("\n");
    expect(lines).toHaveLength(2);
    expect(lines[0]).toContain('a message was ignored reason="unknown method');
    expect(lines[1]).toContain("messages were ignored count=1000");
  });

  test("keeps a large id exactly", async () => {
    using connection = await socketPeer(agent.directory);
    const id = Long.MAX_VALUE;
    connection.peer.send({ jsonrpc: "2.0", id, method: "version" });
    const answer = await connection.peer.receive();
    expect(id.equals(answer?.id as Long)).toBe(true);
  });
});

describe("bytes that are not the protocol", () => {
  const cases: [string, Uint8Array][] = [
    ["a length beyond the limit", header(maxPayload + 1)],
    ["a length of zero", header(0)],
    ["a payload that is not BSON", Buffer.concat([header(5), Buffer.from("hello")])],
    ["an HTTP request", Buffer.from("GET / HTTP/1.1\r\n\r\n")],
  ];
  for (const [name, bytes] of cases) {
    test(`end that channel and no other: ${name}`, async () => {
      using connection = await socketPeer(agent.directory);
      connection.peer.sendBytes(bytes);
      expect(await connection.peer.receive()).toBeUndefined();
      await agentStillServes();
    });

    test(`end the server on standard input with a status of failure: ${name}`, async () => {
      await using server = stdioServer();
      server.peer.sendBytes(bytes);
      expect(await server.peer.receive()).toBeUndefined();
      expect(await server.ended).toBe(126);
      expect(server.log()).toContain("the channel is broken");
    });
  }

  test("inside a frame that never ends are a truncation, not an ending", async () => {
    await using server = stdioServer();
    server.peer.sendBytes(Buffer.concat([header(100), Buffer.from("abc")]));
    server.peer.end();
    expect(await server.ended).toBe(126);
    expect(server.log()).toContain("unexpected EOF");
  });
});

test("a first message that is large may take its time, and an idle peer may not", async () => {
  using idle = await socketPeer(agent.directory);
  using slow = await socketPeer(agent.directory);
  const request = { jsonrpc: "2.0", id: Long.fromNumber(1), method: "write", params: { path: "/dev/full/x" } };
  const frame = documentWith(request, Buffer.alloc(3 * 1024 * 1024));
  const bytes = Buffer.concat([header(frame.length), frame]);
  slow.peer.sendBytes(bytes.subarray(0, 2 * 1024 * 1024));
  const start = Date.now();
  expect(await idle.peer.receive()).toBeUndefined();
  expect(Date.now() - start).toBeGreaterThan(5_000);
  await Bun.sleep(500);
  slow.peer.sendBytes(bytes.subarray(2 * 1024 * 1024));
  expect(await slow.peer.receive()).toMatchObject({ id: 1, error: { code: -32007 } });
}, 30_000);

describe("a session", () => {
  test("pairs every request with one response, in order, also when they are sent ahead", async () => {
    using connection = await socketPeer(agent.directory);
    for (let id = 0; id < 50; id++) {
      connection.peer.send({ jsonrpc: "2.0", id, method: "exec", params: { cmd: ["echo", String(id)] } });
    }
    for (let id = 0; id < 50; id++) {
      expect(await connection.peer.receive()).toMatchObject({
        id,
        method: "exec",
        result: { stdout: Buffer.from(`${id}\n`) },
      });
    }
  });

  test("needs no init", async () => {
    using connection = await socketPeer(agent.directory);
    expect(await connection.peer.call("exec", { cmd: ["true"] })).toMatchObject({ result: { code: 0 } });
  });

  test("is replaced by a second init, and kept by one that is refused", async () => {
    using connection = await socketPeer(agent.directory);
    const { peer } = connection;
    await peer.call("init", { mounts: ["file:///usr:/usr"] });
    await peer.call("exec", { cmd: ["cd", "bin"] });
    expect(await peer.call("init", { mounts: ["s3://x/y:/z"] })).toMatchObject({ error: { code: -32008 } });
    expect(await peer.call("exec", { cmd: ["pwd"] })).toMatchObject({ result: { stdout: Buffer.from("/usr/bin\n") } });
    expect(await peer.call("init", { mounts: ["file:///etc:/etc:ro"] })).toMatchObject({ result: { cwd: "/etc" } });
    expect(await peer.call("exec", { cmd: ["pwd"] })).toMatchObject({ result: { stdout: Buffer.from("/etc\n") } });
  });

  test("is its connection's own: others stand elsewhere and do not wait for it", async () => {
    using first = await socketPeer(agent.directory);
    using second = await socketPeer(agent.directory);
    await first.peer.call("exec", { cmd: ["cd", "/usr"] });
    first.peer.send({ jsonrpc: "2.0", id: 9, method: "exec", params: { cmd: ["sleep", "1"] } });
    const start = Date.now();
    expect(await second.peer.call("exec", { cmd: ["pwd"] })).not.toMatchObject({
      result: { stdout: Buffer.from("/usr\n") },
    });
    expect(Date.now() - start).toBeLessThan(900);
    expect(await first.peer.receive()).toMatchObject({ id: 9, result: { code: 0 } });
  });

  test("has no images to build, list or remove", async () => {
    using connection = await socketPeer(agent.directory);
    const { peer } = connection;
    expect(await peer.call("list_images", {})).toMatchObject({ result: { images: [] } });
    const recipe = { v: 1, base: "scratch", steps: [] };
    expect(await peer.call("build_image", { recipe })).toMatchObject({ error: { code: -32011 } });
    expect(await peer.call("remove_image", { image: { type: "ref", ref: "a:b" } })).toMatchObject({
      error: { code: -32602 },
    });
  });

  test("takes and gives frames of nearly 64 MiB without growing for good", async () => {
    await using server = stdioServer();
    const data = Buffer.alloc(maxPayload - 4096, 5);
    const directory = mkdtempSync(join(tmpdir(), "vmapp-console-"));
    try {
      const path = join(directory, "large");
      for (let round = 0; round < 3; round++) {
        const document = { jsonrpc: "2.0", id: Long.fromNumber(round), method: "write", params: { path } };
        const frame = documentWith(document, data);
        server.peer.sendBytes(Buffer.concat([header(frame.length), frame]));
        expect(await server.peer.receive()).toMatchObject({ id: round, result: { size: data.length } });
      }
      const status = await Bun.file(`/proc/${server.pid}/status`).text();
      const peak = Number(/VmHWM:\s+(\d+) kB/.exec(status)?.[1]);
      expect(peak).toBeLessThan(600 * 1024);
    } finally {
      rmSync(directory, { recursive: true, force: true });
    }
  });
});

/** A write request with `data` in it; the library's own buffer is too small for such a document. */
function documentWith(document: object, data: Buffer): Buffer {
  const empty = Buffer.from(
    BSON.serialize({ ...document, params: { ...(document as { params: object }).params, data: new Binary() } }),
  );
  const marker = Buffer.from("\x05data\0\0\0\0\0\0");
  const position = empty.indexOf(marker);
  const grown = Buffer.concat([
    empty.subarray(0, position + marker.length),
    data,
    empty.subarray(position + marker.length),
  ]);
  grown.writeInt32LE(data.length, position + 6);
  grown.writeInt32LE(grown.length, 0);
  const params = grown.indexOf("\x03params\0") + 8;
  grown.writeInt32LE(grown.readInt32LE(params) + data.length, params);
  return grown;
}

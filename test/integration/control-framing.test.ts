/** Framing, item by item as in the protocol's list of conformance tests. */
import { expect, test } from "bun:test";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { Daemon } from "../control/daemon.ts";
import { frame, type RawPeer } from "../control/raw-peer.ts";
import { answersPing, closedAndServing } from "../control/still-answers.ts";

const ping = frame({ v: 1, t: "ping", id: "1" });
const pong = { v: 1, t: "pong", id: "1" };
const mib4 = 4 * 1024 * 1024;

const pause = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 5));

function header(length: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(length);
  return bytes;
}

test("framing: a header split across four reads", async () => {
  await using daemon = await Daemon.start();
  const peer = await daemon.greeted();
  for (const byte of ping.subarray(0, 4)) {
    peer.sendBytes(Buffer.from([byte]));
    await pause();
  }
  peer.sendBytes(ping.subarray(4));
  expect(await peer.reply()).toEqual(pong);
});

test("framing: header, JSON and raw block in one segment", async () => {
  await using daemon = await Daemon.start();
  const peer = await daemon.greeted();
  const path = join(daemon.root, "x");
  peer.sendBytes(Buffer.concat([frame({ v: 1, t: "file_put", id: "a", path, size: 3 }), Buffer.from("abc"), ping]));
  expect(await peer.reply()).toEqual({ v: 1, t: "ok", id: "a" });
  expect(await peer.reply()).toEqual(pong);
  expect(readFileSync(path, "utf8")).toBe("abc");
});

test("framing: two frames in one segment", async () => {
  await using daemon = await Daemon.start();
  const peer = await daemon.greeted();
  peer.sendBytes(Buffer.concat([ping, frame({ v: 1, t: "version", id: "2" })]));
  expect(await peer.reply()).toEqual(pong);
  expect(await peer.reply()).toMatchObject({ t: "version", id: "2" });
});

test("framing: a frame of 4 MiB - 1 is served", async () => {
  await using daemon = await Daemon.start();
  const peer = await daemon.greeted();
  const shell = JSON.stringify({ v: 1, t: "ping", id: "1", pad: "" });
  const message = JSON.stringify({ v: 1, t: "ping", id: "1", pad: "x".repeat(mib4 - 1 - shell.length) });
  expect(message.length).toBe(mib4 - 1);
  expect(await peer.ask(message)).toEqual(pong);
  await answersPing(peer);
});

test.each([0, mib4, mib4 + 1, 0xffffffff])(
  "framing: a length of %d ends the connection, and nothing is allocated for it",
  async (length) => {
    await using daemon = await Daemon.start();
    const before = process.memoryUsage().rss;
    const peer = await daemon.greeted();
    peer.sendBytes(header(length));
    await closedAndServing(peer, daemon);
    expect(process.memoryUsage().rss - before).toBeLessThan(64 * 1024 * 1024);
  },
);

test.each(["[]", '"hello"', "7", "null", "true", "{", ""])(
  "framing: a payload of %j ends the connection",
  async (json) => {
    await using daemon = await Daemon.start();
    const peer = await daemon.greeted();
    peer.send(json);
    await closedAndServing(peer, daemon);
  },
);

test("framing: invalid UTF-8 ends the connection", async () => {
  await using daemon = await Daemon.start();
  const peer = await daemon.greeted();
  const payload = Buffer.concat([
    Buffer.from('{"v":1,"t":"ping","id":"'),
    Buffer.from([0xc3, 0x28]),
    Buffer.from('"}'),
  ]);
  peer.sendBytes(Buffer.concat([header(payload.length), payload]));
  await closedAndServing(peer, daemon);
});

test("framing: escaped slashes are slashes", async () => {
  await using daemon = await Daemon.start();
  const peer = await daemon.greeted();
  const path = join(daemon.root, "made");
  expect(
    await peer.ask(`{"v":1,"t":"file_mkdir","id":"1","path":${JSON.stringify(path).replaceAll("/", "\\/")}}`),
  ).toMatchObject({ t: "ok" });
  expect(existsSync(path)).toBe(true);
  await answersPing(peer);
});

test.each(['{"id":"1","t":"ping","v":1}', '{"t":"ping","v":1,"id":"1"}', '{ "v" : 1.0 , "id" : "1" , "t" : "ping" }'])(
  "framing: the order of keys does not matter: %s",
  async (message) => {
    await using daemon = await Daemon.start();
    const peer = await daemon.greeted();
    expect(await peer.ask(message)).toEqual(pong);
  },
);

test.each([1, 4, 9])("framing: an end after %d bytes of a frame ends the session and no other", async (count) => {
  await using daemon = await Daemon.start();
  const peer: RawPeer = await daemon.greeted();
  peer.socket.end(ping.subarray(0, count));
  await closedAndServing(peer, daemon);
});

test("framing: requests sent before a half-close are all answered", async () => {
  await using daemon = await Daemon.start();
  const peer = await daemon.greeted();
  peer.socket.end(Buffer.concat([ping, ping]));
  expect(await peer.reply()).toEqual(pong);
  expect(await peer.reply()).toEqual(pong);
  expect(await peer.reply()).toBeUndefined();
});

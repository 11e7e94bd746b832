/** Hello and ids, item by item as in the protocol's list of conformance tests. */
import { expect, test } from "bun:test";
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { Daemon } from "../control/daemon.ts";
import { frame } from "../control/raw-peer.ts";
import { answersPing, closedAndServing } from "../control/still-answers.ts";

const executable = "/etc/hostname";
const ownHash = createHash("sha256").update(readFileSync(executable)).digest("hex");

test("hello: without a hash no update is asked for", async () => {
  await using daemon = await Daemon.start({ executable });
  const peer = await daemon.raw();
  const reply = await peer.ask({ v: 1, t: "hello" });
  expect(reply).toMatchObject({ v: 1, t: "hello", name: "vphoned" });
  expect(reply).not.toHaveProperty("need_update");
  expect(reply).not.toHaveProperty("ios");
  await answersPing(peer);
});

test.each([
  ["the equal hash", ownHash, false],
  ["a different hash", "0".repeat(64), true],
  ["the equal hash in upper case", ownHash.toUpperCase(), true],
  ["an empty hash", "", false],
  ["a null hash", null, false],
])("hello: %s", async (_, hash, needsUpdate) => {
  await using daemon = await Daemon.start({ executable });
  const peer = await daemon.raw();
  const reply = await peer.ask({ v: 1, t: "hello", bin_hash: hash });
  expect(reply?.need_update).toBe(needsUpdate ? true : undefined);
  if (hash) expect(reply?.hash).toBe(ownHash);
  await answersPing(peer);
});

test.each([[7], [true], [[]], [{}]])(
  "hello: a hash of the wrong type (%j) is refused and harms nothing",
  async (hash) => {
    await using daemon = await Daemon.start();
    const peer = await daemon.raw();
    expect(await peer.ask({ v: 1, t: "hello", bin_hash: hash })).toMatchObject({ t: "err", code: "bad_request" });
    await closedAndServing(peer, daemon);
  },
);

test("hello: an own program that cannot be read asks for no update", async () => {
  await using daemon = await Daemon.start({ executable: "/nowhere/vmapp-init" });
  const peer = await daemon.raw();
  expect(await peer.ask({ v: 1, t: "hello", bin_hash: "0".repeat(64) })).not.toHaveProperty("need_update");
  await answersPing(peer);
});

test.each([2, 0, "1", null])("hello: version %j is answered with a mismatch, then closed", async (v) => {
  await using daemon = await Daemon.start();
  const peer = await daemon.raw();
  expect(await peer.ask({ v, t: "hello" })).toEqual({ v: 1, t: "err", msg: "version mismatch", code: "version" });
  await closedAndServing(peer, daemon);
});

test("hello: a missing version is a mismatch", async () => {
  await using daemon = await Daemon.start();
  const peer = await daemon.raw();
  expect(await peer.ask({ t: "hello" })).toMatchObject({ t: "err", msg: "version mismatch" });
  await closedAndServing(peer, daemon);
});

test("hello: another message first is closed without a word", async () => {
  await using daemon = await Daemon.start();
  const peer = await daemon.raw();
  expect(await peer.ask({ v: 1, t: "ping", id: "1" })).toBeUndefined();
  await closedAndServing(peer, daemon);
});

test("hello: a second one is an unknown type", async () => {
  await using daemon = await Daemon.start();
  const peer = await daemon.greeted();
  expect(await peer.ask({ v: 1, t: "hello", id: "1" })).toMatchObject({
    t: "err",
    msg: "unknown type: hello",
    code: "unknown_type",
  });
  await answersPing(peer);
});

test("hello: a peer that stalls in it is dropped after ten seconds, and delays nobody meanwhile", async () => {
  await using daemon = await Daemon.start();
  const silent = await daemon.raw();
  silent.sendBytes(frame({ v: 1, t: "hello" }).subarray(0, 7));
  const other = await daemon.greeted();
  await answersPing(other);
  expect(await silent.endsWithin(15_000)).toBe(true);
  await answersPing(other);
}, 30_000);

test("hello: two connections at once are both served", async () => {
  await using daemon = await Daemon.start();
  const [first, second] = [await daemon.greeted(), await daemon.greeted()];
  await answersPing(second);
  await answersPing(first);
});

test("ids: a request without one gets a reply without one", async () => {
  await using daemon = await Daemon.start();
  const peer = await daemon.greeted();
  expect(await peer.ask({ v: 1, t: "ping" })).toEqual({ v: 1, t: "pong" });
});

test.each([7, 1.5, null, true, ["a"], { a: 1 }, "", "x".repeat(100_000)])(
  "ids: %j is echoed as it came",
  async (id) => {
    await using daemon = await Daemon.start();
    const peer = await daemon.greeted();
    expect(await peer.ask({ v: 1, t: "ping", id })).toEqual({ v: 1, t: "pong", id });
    expect(await peer.ask({ v: 1, t: "nosuch", id })).toMatchObject({ t: "err", id });
  },
);

test("ids: one that leaves no room for a reply is answered without it", async () => {
  await using daemon = await Daemon.start();
  const peer = await daemon.greeted();
  const id = "x".repeat(4 * 1024 * 1024 - 60);
  expect(await peer.ask({ v: 1, t: "nosuch", id })).toMatchObject({ t: "err", code: "too_large" });
  await answersPing(peer);
});

test("ids: the same one twice in flight gets two replies", async () => {
  await using daemon = await Daemon.start();
  const peer = await daemon.greeted();
  peer.send({ v: 1, t: "ping", id: "1" });
  peer.send({ v: 1, t: "version", id: "1" });
  expect(await peer.reply()).toMatchObject({ t: "pong", id: "1" });
  expect(await peer.reply()).toMatchObject({ t: "version", id: "1" });
});

test("ids: pipelined requests are answered in order", async () => {
  await using daemon = await Daemon.start();
  const peer = await daemon.greeted();
  const ids = Array.from({ length: 500 }, (_, index) => index.toString(16));
  for (const id of ids)
    peer.send(Number.parseInt(id, 16) % 2 === 0 ? { v: 1, t: "ping", id } : { v: 1, t: "file_list", id, path: "/" });
  for (const id of ids) expect(await peer.reply()).toMatchObject({ id });
});

test.each([
  [{ t: "frob" }, "unknown type: frob"],
  [{}, "unknown type: (null)"],
  [{ t: 7 }, "unknown type: 7"],
  [{ t: "hid", page: 12, usage: 64 }, "unknown type: hid"],
  [{ t: "file_frob" }, "unknown file command: file_frob"],
  [{ t: "keychain_list" }, "unknown keychain command: keychain_list"],
  [{ t: "clipboard_frob" }, "unknown clipboard command: clipboard_frob"],
  [{ t: "app_foreground" }, "unknown apps command: app_foreground"],
  [{ t: "settings_get", domain: "x" }, "unknown settings command: settings_get"],
  [{ t: "ipa_install", path: "/x" }, "unknown type: ipa_install"],
  [{ t: "toString" }, "unknown type: toString"],
  [{ t: "__proto__" }, "unknown type: __proto__"],
])("types: %j is refused at once in the protocol's words", async (message, msg) => {
  await using daemon = await Daemon.start();
  const peer = await daemon.greeted();
  expect(await peer.ask({ v: 1, id: "1", ...message })).toMatchObject({ t: "err", id: "1", msg });
  await answersPing(peer);
});

test("types: a command that is known but backed by nothing is unavailable, and its cap is not offered", async () => {
  await using daemon = await Daemon.start();
  const peer = await daemon.raw();
  const hello = await peer.ask({ v: 1, t: "hello" });
  expect(hello?.caps).not.toContain("apps");
  expect(await peer.ask({ v: 1, t: "app_list", id: "1" })).toMatchObject({
    t: "err",
    msg: "apps not available",
    code: "unavailable",
  });
  expect(await peer.ask({ v: 1, t: "low_power_mode", id: "2", enabled: true })).toMatchObject({
    t: "low_power_mode",
    ok: false,
  });
  await answersPing(peer);
});

/** The hex examples of the protocol: what is on the wire, byte by byte. */
import { expect, test } from "bun:test";
import { createHash } from "node:crypto";
import { encodeMessage } from "#protocol/control/message.ts";
import { planRaw } from "#protocol/control/raw-size.ts";
import { ControlReader } from "#protocol/control/reader.ts";

const bytes = (hex: string): Buffer => Buffer.from(hex.replace(/\s+/g, ""), "hex");
const limits = { update: 1000, filePut: 1000, clipboardImage: 1000 };

function readerOver(...chunks: Buffer[]): ControlReader {
  const reader = new ControlReader({ pause() {}, resume() {} });
  for (const chunk of chunks) reader.push(chunk);
  reader.end();
  return reader;
}

const helloPlain = bytes("00 00 00 13 7b 22 76 22 3a 31 2c 22 74 22 3a 22 68 65 6c 6c 6f 22 7d");
const ping = bytes("00 00 00 1b 7b 22 76 22 3a 31 2c 22 74 22 3a 22 70 69 6e 67 22 2c 22 69 64 22 3a 22 31 22 7d");
const pong = bytes("00 00 00 1b 7b 22 76 22 3a 31 2c 22 74 22 3a 22 70 6f 6e 67 22 2c 22 69 64 22 3a 22 31 22 7d");
const helloWithHash = bytes(`
  00 00 00 61 7b 22 76 22 3a 31 2c 22 74 22 3a 22 68 65 6c 6c 6f 22 2c 22 62 69 6e 5f 68 61 73 68
  22 3a 22 63 62 62 32 34 61 34 33 34 33 39 39 61 65 37 30 33 35 31 63 64 31 34 39 32 66 64 64 32
  32 65 61 65 61 30 37 36 30 36 38 32 62 34 34 35 38 65 63 36 65 62 37 66 65 36 62 65 31 35 64 66
  33 62 62 22 7d`);
const helloReply = bytes(`
  00 00 00 43 7b 22 76 22 3a 31 2c 22 74 22 3a 22 68 65 6c 6c 6f 22 2c 22 6e 61 6d 65 22 3a 22 76
  70 68 6f 6e 65 64 22 2c 22 63 61 70 73 22 3a 5b 22 66 69 6c 65 22 5d 2c 22 69 6f 73 22 3a 22 31
  38 2e 36 2e 32 22 7d`);
const updateWithRaw = bytes(`
  00 00 00 26 7b 22 76 22 3a 31 2c 22 74 22 3a 22 75 70 64 61 74 65 22 2c 22 69 64 22 3a 22 31 22
  2c 22 73 69 7a 65 22 3a 35 7d 7f 45 4c 46 02`);
const updated = bytes(`
  00 00 00 35 7b 22 76 22 3a 31 2c 22 74 22 3a 22 6f 6b 22 2c 22 69 64 22 3a 22 31 22 2c 22 6d 73
  67 22 3a 22 75 70 64 61 74 65 64 2c 20 72 65 73 74 61 72 74 69 6e 67 22 7d`);
const filePut = bytes(`
  00 00 00 47 7b 22 76 22 3a 31 2c 22 74 22 3a 22 66 69 6c 65 5f 70 75 74 22 2c 22 69 64 22 3a 22
  61 22 2c 22 70 61 74 68 22 3a 22 5c 2f 74 6d 70 5c 2f 78 22 2c 22 73 69 7a 65 22 3a 33 2c 22 70
  65 72 6d 22 3a 22 36 34 34 22 7d 61 62 63`);
const fileData = bytes(`
  00 00 00 29 7b 22 76 22 3a 31 2c 22 74 22 3a 22 66 69 6c 65 5f 64 61 74 61 22 2c 22 69 64 22 3a
  22 62 22 2c 22 73 69 7a 65 22 3a 33 7d 61 62 63`);
const refusal = bytes(`
  00 00 00 35 7b 22 76 22 3a 31 2c 22 74 22 3a 22 65 72 72 22 2c 22 69 64 22 3a 22 32 22 2c 22 6d
  73 67 22 3a 22 75 6e 6b 6e 6f 77 6e 20 74 79 70 65 3a 20 66 72 6f 62 22 7d`);

test.each([
  ["a minimal hello", helloPlain, { t: "hello" }],
  ["a ping", ping, { t: "ping", id: "1" }],
  ["a pong", pong, { t: "pong", id: "1" }],
  ["a hello's answer", helloReply, { t: "hello", name: "vphoned", caps: ["file"], ios: "18.6.2" }],
  ["the answer to an update", updated, { t: "ok", id: "1", msg: "updated, restarting" }],
  ["an error", refusal, { t: "err", id: "2", msg: "unknown type: frob" }],
])("%s is written and read byte for byte as in the protocol's examples", async (_, wire, message) => {
  expect(encodeMessage(message)).toEqual(wire);
  expect(await readerOver(wire).frame()).toEqual({ v: 1, ...message });
});

test("a hello that offers a program carries the SHA-256 of the whole of it", async () => {
  const hash = createHash("sha256").update(bytes("7f 45 4c 46 02")).digest("hex");
  expect(encodeMessage({ t: "hello", bin_hash: hash })).toEqual(helloWithHash);
});

test.each([
  ["update", updateWithRaw, { v: 1, t: "update", id: "1", size: 5 }, "7f454c4602"],
  [
    "file_put with escaped slashes",
    filePut,
    { v: 1, t: "file_put", id: "a", path: "/tmp/x", size: 3, perm: "644" },
    "616263",
  ],
])("the raw block of %s begins right behind its frame", async (_, wire, message, raw) => {
  const reader = readerOver(wire);
  const frame = await reader.frame();
  expect(frame).toEqual(message);
  const plan = planRaw(message, limits);
  expect(plan).toEqual({ kind: "bytes", bytes: raw.length / 2 });
  reader.expectRaw(raw.length / 2);
  expect(Buffer.from((await reader.raw()) ?? []).toString("hex")).toBe(raw);
  expect(await reader.frame()).toBeUndefined();
});

test("the raw block of file_data begins right behind its frame", async () => {
  const reader = readerOver(fileData);
  expect(await reader.frame()).toEqual({ v: 1, t: "file_data", id: "b", size: 3 });
  reader.expectRaw(3);
  expect(Buffer.from((await reader.raw()) ?? []).toString()).toBe("abc");
});

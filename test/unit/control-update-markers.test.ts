import { expect, test } from "bun:test";
import fc from "fast-check";
import { readElf } from "#agent/control/update/elf.ts";
import { decodeMarker, decodeRejected, encodeMarker, encodeRejected } from "#protocol/update-markers.ts";

const hash = (digit: string): string => digit.repeat(64);

test("a marker is read back as it was written, and nothing else is taken for one", () => {
  expect(decodeMarker(encodeMarker({ sha256: hash("a"), size: 7 }))).toEqual({ sha256: hash("a"), size: 7 });
  for (const text of [
    "",
    "{",
    "null",
    "[]",
    `{"sha256":"${hash("a")}"}`,
    `{"sha256":"../x","size":1}`,
    `{"sha256":"${hash("a")}","size":0}`,
  ])
    expect(decodeMarker(text)).toBeUndefined();
});

test("given-up programs are remembered once each, and the last 32 of them", () => {
  const hashes = Array.from({ length: 40 }, (_, index) => index.toString(16).padStart(64, "0"));
  expect(decodeRejected(encodeRejected([...hashes, hashes[39] as string]))).toEqual(hashes.slice(8));
  expect(decodeRejected("junk\n../x\n")).toEqual([]);
});

test("no bytes make the reader of executables throw or read far", async () => {
  await fc.assert(
    fc.asyncProperty(fc.uint8Array({ minLength: 64, maxLength: 400 }), async (bytes) => {
      const file = Buffer.from(bytes);
      file.set([0x7f, 0x45, 0x4c, 0x46, 2, 1]);
      file.writeUInt16LE(2, 16);
      if (bytes[63] !== 0) file.writeUInt16LE(56, 54);
      await readElf(async (offset, length) => {
        expect(length).toBeLessThanOrEqual(128 * 56);
        return file.subarray(offset, offset + length);
      });
    }),
  );
});

import { expect, test } from "bun:test";
import { decodeMarker, decodeRejected, encodeMarker, encodeRejected } from "#protocol/update-markers.ts";

const hash = (digit: string): string => digit.repeat(64);

test("a marker is read back as it was written, and nothing else is taken for one", () => {
  expect(decodeMarker(encodeMarker({ sha256: hash("a"), size: 7, base: "b" }))).toEqual({
    sha256: hash("a"),
    size: 7,
    base: "b",
  });
  for (const text of [
    "",
    "{",
    "null",
    "[]",
    `{"sha256":"${hash("a")}"}`,
    `{"sha256":"../x","size":1,"base":"b"}`,
    `{"sha256":"${hash("a")}","size":0,"base":"b"}`,
  ])
    expect(decodeMarker(text)).toBeUndefined();
});

test("given-up programs are remembered once each, and the last 32 of them", () => {
  const hashes = Array.from({ length: 40 }, (_, index) => index.toString(16).padStart(64, "0"));
  expect(decodeRejected(encodeRejected([...hashes, hashes[39] as string]))).toEqual(hashes.slice(8));
  expect(decodeRejected("junk\n../x\n")).toEqual([]);
});

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { readImageFile } from "#init/image-file.ts";

let directory: string;
const path = (name: string) => join(directory, name);
beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), "vmapp-image-file-"));
});
afterAll(() => rmSync(directory, { recursive: true, force: true }));

describe("a file of the image", () => {
  test("is read whole, also through a link", () => {
    writeFileSync(path("file"), "a\nb\n");
    symlinkSync("file", path("link"));
    expect(readImageFile(path("link"))).toBe("a\nb\n");
  });

  test("may be missing", () => {
    expect(readImageFile(path("none"))).toBeUndefined();
  });

  test("is not waited for when it is a FIFO", () => {
    execFileSync("mkfifo", [path("fifo")]);
    expect(() => readImageFile(path("fifo"))).toThrow("it is not a regular file");
  });

  test("is refused when it is a directory or a device", () => {
    mkdirSync(path("directory"));
    for (const other of [path("directory"), "/dev/zero"])
      expect(() => readImageFile(other)).toThrow("it is not a regular file");
  });

  test("is refused, with both sizes, when it is larger than any such file", () => {
    writeFileSync(path("large"), "");
    truncateSync(path("large"), 1024 * 1024 + 1);
    expect(() => readImageFile(path("large"))).toThrow("it has 1048577 bytes, 1048576 are allowed");
  });
});

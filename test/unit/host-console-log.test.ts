import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ConsoleLog, lastLines, quoteConsole, readConsoleTail, stripTerminalEscapes } from "#host/vm/console-log.ts";

let directory: string;
let path: string;

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "vmapp-console-"));
  path = join(directory, "console.log");
});
afterEach(() => {
  rmSync(directory, { recursive: true, force: true });
});

describe("a guest's console", () => {
  test.each([
    ["colour", "\x1b[1;32mok\x1b[0m", "ok"],
    ["cursor movement", "\x1b[2J\x1b[Hhi", "hi"],
    ["a window title", "\x1b]0;evil\x07hi", "hi"],
    ["a title ended by ST", "\x1b]2;evil\x1b\\hi", "hi"],
    ["a device control string", "\x1bPq#0\x1b\\hi", "hi"],
    ["a charset switch", "\x1b(Bhi", "hi"],
    ["carriage returns and bells", "a\r\nb\x07\n", "a\nb\n"],
    ["an unfinished sequence", "hi\x1b[3", "hi3"],
  ])("is quoted without %s", (_what, raw, plain) => {
    expect(stripTerminalEscapes(raw)).toBe(plain);
  });

  test("is quoted by its last lines that are not blank", () => {
    expect(lastLines("a\n\nb\n  \nc\n", 2)).toEqual(["b", "c"]);
    expect(quoteConsole("it failed", ["b", "c"], "vm1")).toBe("it failed\nThe console of vm1 ends with:\n  | b\n  | c");
    expect(quoteConsole("it failed", [], "vm1")).toContain("empty");
  });

  test("goes to a file that only the user can read, and its end can be read from there", () => {
    const log = new ConsoleLog(path);
    log.append(Buffer.from("one\ntwo\n"));
    log.close();
    expect(readFileSync(path, "utf8")).toBe("one\ntwo\n");
    expect(statSync(path).mode & 0o777).toBe(0o600);
    expect(readConsoleTail(path)).toEqual(["one", "two"]);
    expect(readConsoleTail(join(directory, "none"))).toEqual([]);
  });

  test("never takes more than two files of the limit on disk, and the end is not lost", () => {
    const limit = 1000;
    const log = new ConsoleLog(path, limit);
    for (let line = 0; line < 1000; line++) log.append(Buffer.from(`line ${line}\n`));
    log.close();
    const files = [`${path}.1`, path].map((file) => readFileSync(file, "utf8"));
    for (const file of files) expect(file.length).toBeLessThanOrEqual(limit);
    const lines = files.join("").trimEnd().split("\n");
    expect(lines.at(-1)).toBe("line 999");
    const first = Number(lines[0]?.slice(5));
    expect(lines).toEqual(Array.from({ length: 1000 - first }, (_, index) => `line ${first + index}`));
    expect(existsSync(`${path}.2`)).toBe(false);
  });

  test("a panic is seen wherever the chunks are cut, and reported once", () => {
    const text = "ok\n\x1b[31m[    1.5] Kernel panic - not syncing: no init found\n more\n";
    for (let cut = 1; cut < text.length; cut++) {
      const log = new ConsoleLog(join(directory, `${cut}`));
      let seen = 0;
      log.onPanic(() => seen++);
      log.append(Buffer.from(text.slice(0, cut)));
      log.append(Buffer.from(text.slice(cut)));
      log.append(Buffer.from(text));
      log.close();
      expect(seen).toBe(1);
      expect(log.panic).toBe("Kernel panic - not syncing: no init found");
    }
  });

  test("a program that prints the words of a panic is not taken for one, and a panic after it is", () => {
    const log = new ConsoleLog(path);
    let seen = 0;
    log.onPanic(() => seen++);
    log.append(Buffer.from(`${"x".repeat(100)}\napp: the words are "Kernel panic - not syncing: x"\napp: Kernel pan`));
    log.append(Buffer.from("ic - not syncing: y\n"));
    expect(seen).toBe(0);
    expect(log.panic).toBeUndefined();
    log.append(Buffer.from("app: half a line[   12.345678][    T1] Kernel panic - not syncing: real\n"));
    expect(seen).toBe(1);
    expect(log.panic).toBe("Kernel panic - not syncing: real");
    log.close();
  });

  test("whoever asks after the panic is told, too", () => {
    const log = new ConsoleLog(path);
    log.append(Buffer.from("Kernel panic - not syncing: x\n"));
    let seen = 0;
    log.onPanic(() => seen++);
    log.close();
    expect(seen).toBe(1);
    expect(log.panic).toBe("Kernel panic - not syncing: x");
  });

  test("memory stays bounded however much is printed", () => {
    const log = new ConsoleLog(path, 64 * 1024);
    const line = Buffer.from(`${"x".repeat(99)}\n`);
    for (let count = 0; count < 5000; count++) log.append(line);
    log.close();
    expect(log.tail(10_000).length).toBeLessThan(200);
  });
});

import { describe, expect, test } from "bun:test";
import { livingProcesses, parseStat } from "#init/process-table.ts";

describe("the process table", () => {
  test("reads a name with spaces and parentheses", () => {
    expect(parseStat("42 (a) (b c)) S 1 42 42 0 -1 4194560 100 0")).toEqual({
      pid: 42,
      name: "a) (b c)",
      zombie: false,
      kernelThread: false,
    });
  });

  test("tells zombies and the kernel's threads from programs", () => {
    expect(parseStat("9 (gone) Z 1 9 9 0 -1 4227084 0")?.zombie).toBe(true);
    expect(parseStat("2 (kthreadd) S 0 0 0 0 -1 2129984 0")?.kernelThread).toBe(true);
  });

  test("gives up on a line of another form", () => {
    expect(parseStat("")).toBeUndefined();
    expect(parseStat("x (y) S")).toBeUndefined();
  });

  test("lists this process and not process 1", () => {
    const pids = livingProcesses().map((entry) => entry.pid);
    expect(pids).toContain(process.pid);
    expect(pids).not.toContain(1);
  });
});

import { describe, expect, test } from "bun:test";
import { findLiving, parseStat, processIds } from "#init/process-table.ts";

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
    expect(processIds()).toContain(process.pid);
    expect(processIds()).not.toContain(1);
  });

  test("finds a program that runs, and looks at none that is not asked for", () => {
    const asked: number[] = [];
    const found = findLiving((pid) => {
      asked.push(pid);
      return pid === process.pid;
    });
    expect(found).toMatchObject({ pid: process.pid, zombie: false, kernelThread: false });
    // Nor at any behind it.
    expect(asked.at(-1)).toBe(process.pid);
    expect(findLiving(() => false)).toBeUndefined();
  });

  test("finds no program in one that has ended and is not waited for yet", async () => {
    // Before its child ends, the shell becomes a program that waits for none, so the child stays a zombie.
    const parent = Bun.spawn(["sh", "-c", "sleep 0.2 & echo $!; exec sleep 60"], { stdout: "pipe" });
    try {
      const { value } = await parent.stdout.getReader().read();
      const child = Number(Buffer.from(value ?? []).toString());
      while (parseStat(await Bun.file(`/proc/${child}/stat`).text())?.zombie !== true) await Bun.sleep(10);
      expect(findLiving((pid) => pid === child)).toBeUndefined();
    } finally {
      parent.kill();
    }
  });
});

import { describe, expect, test } from "bun:test";
import { type ReapingCalls, reapOrphans } from "#init/reaping.ts";

/** Ended and living children as the kernel keeps them: `peek` shows the first ended one, every time the same. */
function children({ ended, living, owned }: { ended: number[]; living: number[]; owned: number[] }) {
  const reaped: number[] = [];
  const calls: ReapingCalls = {
    peek: () => ended[0],
    reap: (pid) => {
      const index = ended.indexOf(pid);
      if (index < 0) return false;
      ended.splice(index, 1);
      reaped.push(pid);
      return true;
    },
    children: () => [...living, ...ended],
    owned: (pid) => owned.includes(pid),
  };
  return { calls, reaped };
}

describe("reaping", () => {
  test("takes every orphan that has ended", () => {
    const { calls, reaped } = children({ ended: [7, 8, 9], living: [10], owned: [10] });
    expect(reapOrphans(calls)).toBe(3);
    expect(reaped).toEqual([7, 8, 9]);
  });

  test("does nothing when nobody has ended", () => {
    const { calls, reaped } = children({ ended: [], living: [10, 11], owned: [] });
    expect(reapOrphans(calls)).toBe(0);
    expect(reaped).toEqual([]);
  });

  test("never takes a child that somebody else waits for", () => {
    const { calls, reaped } = children({ ended: [5], living: [], owned: [5] });
    expect(reapOrphans(calls)).toBe(0);
    expect(reaped).toEqual([]);
  });

  test("finds the orphans that an owned child hides, and leaves those that live", () => {
    const { calls, reaped } = children({ ended: [7, 5, 8, 9], living: [10, 11], owned: [5, 11] });
    expect(reapOrphans(calls)).toBe(3);
    expect(reaped.sort()).toEqual([7, 8, 9]);
  });

  test("ends when the kernel shows a child that cannot be reaped", () => {
    const { calls } = children({ ended: [], living: [], owned: [] });
    expect(reapOrphans({ ...calls, peek: () => 42 })).toBe(0);
  });
});

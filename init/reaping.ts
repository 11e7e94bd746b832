/**
 * Waits for the orphans that the kernel hands to PID 1, and for nothing else: the status of a service belongs to Bun,
 * which waits for it itself, and a reaper that took it would leave the supervisor waiting for ever.
 */
import { readdirSync, readFileSync } from "node:fs";

export interface ReapingCalls {
  /** some child that has ended, which stays reapable */
  peek(): number | undefined;
  /** reaps that one child; false when it has not ended */
  reap(pid: number): boolean;
  /** all children of PID 1 */
  children(): readonly number[];
  /** whether somebody else waits for this child */
  owned(pid: number): boolean;
}

/** Reaps every ended child that nobody owns. Returns how many there were. */
export function reapOrphans({ peek, reap, children, owned }: ReapingCalls): number {
  let count = 0;
  for (;;) {
    const pid = peek();
    if (pid === undefined) return count;
    if (owned(pid) || !reap(pid)) break;
    count += 1;
  }
  // The kernel shows only one ended child at a time, and this one is not ours to take: it may hide others.
  for (const pid of children()) {
    if (!owned(pid) && reap(pid)) count += 1;
  }
  return count;
}

/** Children of all threads of this process. Empty where the kernel does not list them. */
export function ownChildren(): number[] {
  const children: number[] = [];
  for (const thread of readdirSync("/proc/self/task")) {
    try {
      const text = readFileSync(`/proc/self/task/${thread}/children`, "utf8");
      for (const word of text.split(" ")) if (word !== "") children.push(Number(word));
    } catch {
      // The thread has ended, or the kernel was built without these lists: the next look comes.
    }
  }
  return children;
}

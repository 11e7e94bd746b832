/** Supplementary groups for a child that is forked from this thread. */
import { check, libc, ptr } from "./libc.ts";

/** setgroups(2) on every architecture that the product is built for */
const syscallNumber: Record<string, number> = { x64: 116, arm64: 159 };

/**
 * Runs `fork` with this thread's supplementary groups replaced, and restores them. The raw system call is used because
 * libc's `setgroups` changes every thread of the process. Throws SysError (EPERM) when not privileged.
 */
export function withGroups<T>(groups: readonly number[] | undefined, fork: () => T): T {
  if (groups === undefined) return fork();
  const before = process.getgroups?.() ?? [];
  setThreadGroups(groups);
  try {
    return fork();
  } finally {
    setThreadGroups(before);
  }
}

function setThreadGroups(groups: readonly number[]): void {
  const number = syscallNumber[process.arch];
  if (number === undefined) throw new Error(`setgroups is not known on ${process.arch}`);
  const list = Uint32Array.from(groups.length === 0 ? [0] : groups);
  check("setgroups", libc.syscall(number, BigInt(groups.length), BigInt(ptr(list))), groups.join(","));
}

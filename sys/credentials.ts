/**
 * Starts children as another user. Bun's own uid and gid options drop supplementary groups and node-pty's fork keeps
 * root's, so this thread takes the identity for the length of the fork and takes its own back: the raw system calls change
 * one thread, the child inherits from it, and the saved uid 0 that allows the way back is gone with its exec.
 */
import { check, libc, ptr } from "./libc.ts";

export interface Credentials {
  readonly uid: number;
  readonly gid: number;
  /** supplementary groups */
  readonly groups: readonly number[];
}

const syscallNumbers: Record<string, { setgroups: number; setresuid: number; setresgid: number } | undefined> = {
  x64: { setgroups: 116, setresuid: 117, setresgid: 119 },
  arm64: { setgroups: 159, setresuid: 147, setresgid: 149 },
};

/** Runs `fork` under the given identity. Throws SysError (EPERM) when this process is not root. */
export function withCredentials<T>(credentials: Credentials | undefined, fork: () => T): T {
  if (credentials === undefined) return fork();
  const numbers = syscallNumbers[process.arch];
  if (numbers === undefined) throw new Error(`changing users is not known on ${process.arch}`);
  const { uid, gid, groups } = credentials;
  const setGroups = (list: readonly number[]): void => {
    const array = Uint32Array.from(list.length === 0 ? [0] : list);
    check("setgroups", libc.syscall(numbers.setgroups, list.length, ptr(array), 0), list.join(","));
  };
  const own = process.getgroups?.() ?? [];
  try {
    setGroups(groups);
    check("setresgid", libc.syscall(numbers.setresgid, gid, gid, 0), `gid ${gid}`);
    check("setresuid", libc.syscall(numbers.setresuid, uid, uid, 0), `uid ${uid}`);
    return fork();
  } finally {
    check("setresuid", libc.syscall(numbers.setresuid, 0, 0, 0), "back to root");
    check("setresgid", libc.syscall(numbers.setresgid, 0, 0, 0), "back to root");
    setGroups(own);
  }
}

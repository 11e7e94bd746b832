/**
 * Starts children as another user. Bun's own uid and gid options drop supplementary groups and node-pty's fork keeps
 * root's, so this thread takes the identity for the length of the fork and takes its own back: the raw system calls change
 * one thread, the child inherits from it, and the saved uid 0 that allows the way back is gone with its exec.
 */
import { check, cString, libc, ptr } from "./libc.ts";

export interface Credentials {
  readonly uid: number;
  readonly gid: number;
  /** supplementary groups */
  readonly groups: readonly number[];
}

interface SyscallNumbers {
  readonly setgroups: number;
  readonly setresuid: number;
  readonly setresgid: number;
  readonly setfsuid: number;
  readonly setfsgid: number;
}

const syscallNumbers: Readonly<Record<string, SyscallNumbers>> = {
  x64: { setgroups: 116, setresuid: 117, setresgid: 119, setfsuid: 122, setfsgid: 123 },
  arm64: { setgroups: 159, setresuid: 147, setresgid: 149, setfsuid: 151, setfsgid: 152 },
};
/** no uid or gid: answered with the present one */
const nobodyAtAll = -1;

/** Runs `fork` under the given identity. Throws SysError (EPERM) when this process is not root. */
export function withCredentials<T>(credentials: Credentials | undefined, fork: () => T): T {
  if (credentials === undefined) return fork();
  const { setresuid, setresgid } = numbersHere();
  const { uid, gid, groups } = credentials;
  const own = process.getgroups?.() ?? [];
  try {
    setGroups(groups);
    check("setresgid", libc.syscall(setresgid, gid, gid, 0), `gid ${gid}`);
    check("setresuid", libc.syscall(setresuid, uid, uid, 0), `uid ${uid}`);
    return fork();
  } finally {
    check("setresuid", libc.syscall(setresuid, 0, 0, 0), "back to root");
    check("setresgid", libc.syscall(setresgid, 0, 0, 0), "back to root");
    setGroups(own);
  }
}

/**
 * Runs `action` with the groups of the given identity, and with its uid and gid as the file system sees them. A child that is
 * started by it takes uid and gid itself. Under the user's own uid, any process of that user could kill this one. Throws
 * SysError (EPERM) when this is not root.
 */
export function withFileCredentials<T>(credentials: Credentials | undefined, action: () => T): T {
  if (credentials === undefined) return action();
  const { setfsuid, setfsgid } = numbersHere();
  const own = process.getgroups?.() ?? [];
  try {
    setGroups(credentials.groups);
    setFileIdentity("setfsgid", setfsgid, credentials.gid);
    setFileIdentity("setfsuid", setfsuid, credentials.uid);
    return action();
  } finally {
    setFileIdentity("setfsuid", setfsuid, 0);
    setFileIdentity("setfsgid", setfsgid, 0);
    setGroups(own);
  }
}

const AT_FDCWD = -100;
const AT_EACCESS = 0x200;
const X_OK = 1;

/** Whether the file may be executed, or the directory entered, by the identity of {@link withFileCredentials}: access(2) asks for another. */
export function mayExecute(path: string): boolean {
  return libc.faccessat(AT_FDCWD, ptr(cString(path)), X_OK, AT_EACCESS) === 0;
}

function numbersHere(): SyscallNumbers {
  const numbers = syscallNumbers[process.arch];
  if (numbers === undefined) throw new Error(`changing users is not known on ${process.arch}`);
  return numbers;
}

function setGroups(groups: readonly number[]): void {
  const array = Uint32Array.from(groups.length === 0 ? [0] : groups);
  check("setgroups", libc.syscall(numbersHere().setgroups, groups.length, ptr(array), 0), groups.join(","));
}

/** These two calls report no error: whether one took effect shows in the answer to the next. */
function setFileIdentity(call: string, number: number, id: number): void {
  libc.syscall(number, id, 0, 0);
  const present = Number(libc.syscall(number, nobodyAtAll, 0, 0)) >>> 0;
  if (present !== id) throw new Error(`${call}: ${present} stays instead of ${id}`);
}

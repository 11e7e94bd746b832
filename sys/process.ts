/** Processes: signals to groups, and waiting that never takes a status which belongs to somebody else. */

import { SysError } from "./errors.ts";
import { Errno, errno, libc, ptr } from "./libc.ts";

const P_ALL = 0;
const P_PID = 1;
const WNOHANG = 1;
const WEXITED = 4;
const WNOWAIT = 0x01000000;
/** offsets into siginfo_t on 64-bit Linux: si_pid after signo, errno, code and padding; si_status after si_uid */
const siPid = 16;
const siginfoBytes = 128;

/** Pid of some child that has exited and is still unreaped, or undefined. The child stays reapable. */
export function peekExitedChild(): number | undefined {
  const info = new Int32Array(siginfoBytes / 4);
  for (;;) {
    if (libc.waitid(P_ALL, 0, ptr(info), WEXITED | WNOHANG | WNOWAIT) === 0) {
      const pid = info[siPid / 4] as number;
      return pid === 0 ? undefined : pid;
    }
    const number = errno();
    if (number === Errno.ECHILD) return undefined;
    if (number !== Errno.EINTR) throw new SysError("waitid", number);
  }
}

/** Reaps that one child if it has exited. Returns whether it did; false too when it is not our child. */
export function reap(pid: number): boolean {
  const info = new Int32Array(siginfoBytes / 4);
  if (libc.waitid(P_PID, pid, ptr(info), WEXITED | WNOHANG) !== 0) return false;
  return info[siPid / 4] === pid;
}

/** SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGSEGV: for these the runtime has handlers that report a crash and end the process */
const crashSignals = [4, 5, 6, 7, 8, 11] as const;

/**
 * Takes the runtime's handlers for crashes away. The kernel drops signals that process 1 has no handler for, so nobody can
 * end it with one of these any more; a fault of its own still ends it.
 */
export function dropCrashHandlers(): void {
  for (const signal of crashSignals) libc.signal(signal, null);
}

/** Lets another thread that waits for this processor run first. */
export function yieldProcessor(): void {
  libc.sched_yield();
}

/** `kill(2)`; a negative pid names a process group. Returns false when there is no such process. */
export function sendSignal(pid: number, signal: number): boolean {
  if (libc.kill(pid, signal) === 0) return true;
  const number = errno();
  if (number === 3) return false;
  throw new SysError("kill", number, `pid ${pid}`);
}

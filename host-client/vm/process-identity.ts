import { readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import * as z from "zod/mini";

/** A process that cannot be mistaken for a later one with the same pid. */
export const processIdentitySchema = z.strictObject({
  pid: z.int().check(z.positive()),
  /** clock ticks between the kernel's start and the process's, field 22 of /proc/PID/stat */
  startTicks: z.int().check(z.nonnegative()),
});
export type ProcessIdentity = z.infer<typeof processIdentitySchema>;

interface ProcessStat {
  state: string;
  startTicks: number;
}

function readStat(pid: number): ProcessStat | undefined {
  let text: string;
  try {
    text = readFileSync(`/proc/${pid}/stat`, "latin1");
  } catch {
    return undefined;
  }
  // The second field is the program's name in parentheses and may hold spaces and parentheses itself.
  const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
  return { state: fields[0] ?? "", startTicks: Number(fields[19]) };
}

/** The identity of a live process; `undefined` when there is none with that pid. */
export function identifyProcess(pid: number): ProcessIdentity | undefined {
  const stat = readStat(pid);
  return stat === undefined ? undefined : { pid, startTicks: stat.startTicks };
}

/** Whether this very process still runs. A zombie has ended and counts as gone. */
export function isProcessAlive({ pid, startTicks }: ProcessIdentity): boolean {
  const stat = readStat(pid);
  return stat !== undefined && stat.startTicks === startTicks && stat.state !== "Z" && stat.state !== "X";
}

/** Polls until the process has gone. False when it still runs after `timeoutMs`. */
export async function waitForProcessEnd(process: ProcessIdentity, timeoutMs: number): Promise<boolean> {
  const deadline = performance.now() + timeoutMs;
  for (;;) {
    if (!isProcessAlive(process)) return true;
    if (performance.now() >= deadline) return false;
    await sleep(20);
  }
}

/** SIGKILLs the process, if it is still the one meant, and waits up to `timeoutMs` until it has gone. */
export async function killProcess(identity: ProcessIdentity, timeoutMs: number): Promise<boolean> {
  if (isProcessAlive(identity)) {
    try {
      process.kill(identity.pid, "SIGKILL");
    } catch {
      // Gone in between.
    }
  }
  return waitForProcessEnd(identity, timeoutMs);
}

/** Identifies this boot of the host: identities of another boot are all dead. */
export function hostBootId(): string {
  try {
    return readFileSync("/proc/sys/kernel/random/boot_id", "latin1").trim();
  } catch {
    return "unknown";
  }
}

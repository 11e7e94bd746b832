/** The processes of this machine, as /proc lists them. */
import { readdirSync, readFileSync } from "node:fs";

/** task flag of the kernel's own threads, in the ninth field of stat */
const PF_KTHREAD = 0x00200000;

export interface ProcessEntry {
  readonly pid: number;
  readonly name: string;
  readonly zombie: boolean;
  readonly kernelThread: boolean;
}

/** Parses `/proc/<pid>/stat`. The name may hold spaces and parentheses: the last `)` ends it. */
export function parseStat(text: string): ProcessEntry | undefined {
  const open = text.indexOf("(");
  const close = text.lastIndexOf(")");
  if (open < 0 || close < open) return undefined;
  const fields = text.slice(close + 2).split(" ");
  const pid = Number.parseInt(text, 10);
  const flags = Number(fields[6]);
  if (!Number.isInteger(pid) || !Number.isInteger(flags)) return undefined;
  return {
    pid,
    name: text.slice(open + 1, close),
    zombie: fields[0] === "Z" || fields[0] === "X",
    kernelThread: (flags & PF_KTHREAD) !== 0,
  };
}

/** All processes but PID 1, the kernel's own threads among them. */
export function processIds(): number[] {
  const pids: number[] = [];
  for (const name of readdirSync("/proc")) if (/^[0-9]+$/.test(name) && name !== "1") pids.push(Number(name));
  return pids;
}

/**
 * The first accepted process that runs a program: no zombie, no kernel thread, not PID 1. It looks no further, since a look
 * at each of some thousand processes takes longer than they are given to end.
 */
export function findLiving(accepts: (pid: number) => boolean): ProcessEntry | undefined {
  for (const pid of processIds()) {
    if (!accepts(pid)) continue;
    try {
      const entry = parseStat(readFileSync(`/proc/${pid}/stat`, "utf8"));
      if (entry !== undefined && !entry.zombie && !entry.kernelThread) return entry;
    } catch {
      // It ended between the listing and the look.
    }
  }
  return undefined;
}

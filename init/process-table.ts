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

/** Every process that runs a program: no zombies, no kernel threads, not PID 1. */
export function livingProcesses(): ProcessEntry[] {
  const living: ProcessEntry[] = [];
  for (const name of readdirSync("/proc")) {
    if (!/^[0-9]+$/.test(name) || name === "1") continue;
    try {
      const entry = parseStat(readFileSync(`/proc/${name}/stat`, "utf8"));
      if (entry !== undefined && !entry.zombie && !entry.kernelThread) living.push(entry);
    } catch {
      // It ended between the listing and the look.
    }
  }
  return living;
}

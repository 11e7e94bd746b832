/** What /proc says of processes, for tests that count what is left. A zombie counts as gone. */
import { readdirSync, readFileSync, readlinkSync } from "node:fs";

interface ProcessStat {
  readonly pid: number;
  readonly state: string;
  readonly parent: number;
  readonly group: number;
  readonly session: number;
  readonly terminal: number;
}

/** undefined when there is no such process */
export function statOf(pid: number): ProcessStat | undefined {
  let text: string;
  try {
    text = readFileSync(`/proc/${pid}/stat`, "utf8");
  } catch {
    return undefined;
  }
  const [state, ...numbers] = text.slice(text.lastIndexOf(")") + 2).split(" ");
  const [parent, group, session, terminal] = numbers.map(Number);
  return {
    pid,
    state: state ?? "",
    parent: parent ?? 0,
    group: group ?? 0,
    session: session ?? 0,
    terminal: terminal ?? 0,
  };
}

export function isAlive(pid: number): boolean {
  const stat = statOf(pid);
  return stat !== undefined && stat.state !== "Z" && stat.state !== "X";
}

function allProcesses(): ProcessStat[] {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .flatMap((name) => statOf(Number(name)) ?? []);
}

/** children of a process that are not zombies */
export function childrenOf(pid: number): number[] {
  return allProcesses()
    .filter(({ parent, state }) => parent === pid && state !== "Z")
    .map((stat) => stat.pid);
}

/** zombies that a process has not waited for */
export function zombiesOf(pid: number): number[] {
  return allProcesses()
    .filter(({ parent, state }) => parent === pid && state === "Z")
    .map((stat) => stat.pid);
}

/** living members of a process group */
export function groupMembers(group: number): number[] {
  return allProcesses()
    .filter((stat) => stat.group === group && stat.state !== "Z")
    .map((stat) => stat.pid);
}

/** what each descriptor of a process points at, e.g. `pipe:[123]`, sorted */
export function descriptorsOf(pid: number): string[] {
  return readdirSync(`/proc/${pid}/fd`)
    .flatMap((fd) => {
      try {
        return [readlinkSync(`/proc/${pid}/fd/${fd}`)];
      } catch {
        return [];
      }
    })
    .sort();
}

/** memory of a process that is nobody else's, in bytes */
export function privateBytes(pid: number): number {
  const text = readFileSync(`/proc/${pid}/smaps_rollup`, "utf8");
  let kib = 0;
  for (const [, number] of text.matchAll(/^Private_(?:Clean|Dirty): +(\d+) kB$/gm)) kib += Number(number);
  return kib * 1024;
}

export function residentBytes(pid: number): number {
  const text = readFileSync(`/proc/${pid}/status`, "utf8");
  return Number(/^VmRSS:\s+(\d+) kB$/m.exec(text)?.[1] ?? 0) * 1024;
}

/** ptys that a process holds: each exists, and stands in /dev/pts, for as long as its master is open */
export function ptyMasters(pid: number): number {
  return descriptorsOf(pid).filter((path) => path.endsWith("/ptmx")).length;
}

/** Looks again every 10 ms until the condition holds. Throws after the time, naming what was waited for. */
export async function eventually(what: string, condition: () => boolean, timeoutMs = 10_000): Promise<void> {
  const deadline = performance.now() + timeoutMs;
  while (!condition()) {
    if (performance.now() > deadline) throw new Error(`not within ${timeoutMs} ms: ${what}`);
    await Bun.sleep(10);
  }
}

import { readdir, readFile, statfs } from "node:fs/promises";
import { decodeServiceReport, serviceReportPath } from "#protocol/service-report.ts";
import type { Reply } from "./reply.ts";
import { systemFailure } from "./request-error.ts";

/** *Extension* `stats`: what the guest uses. Sizes in bytes, times in seconds. */
export async function guestStats(): Promise<Reply> {
  try {
    const [memory, load, uptime, disk, names, report] = await Promise.all([
      readFile("/proc/meminfo", "utf8").then(parseMeminfo),
      readFile("/proc/loadavg", "utf8"),
      readFile("/proc/uptime", "utf8"),
      statfs("/"),
      readdir("/proc"),
      readFile(serviceReportPath, "utf8").then(decodeServiceReport, () => undefined),
    ]);
    return {
      fields: {
        t: "stats",
        uptime: Number.parseFloat(uptime),
        memory,
        /** run queue averaged over 1, 5 and 15 minutes */
        load: load.split(" ", 3).map(Number),
        disk: { path: "/", total: disk.blocks * disk.bsize, available: disk.bavail * disk.bsize },
        processes: names.filter((name) => /^\d+$/.test(name)).length,
        /** resident memory of the agent itself */
        agent_rss: process.memoryUsage.rss(),
        ...(report === undefined
          ? {}
          : { services: report.services.map(({ name, pid, restarts }) => ({ name, pid, restarts })) }),
      },
    };
  } catch (cause) {
    throw systemFailure("stats", cause);
  }
}

export interface MemoryUse {
  readonly total: number;
  /** what programs could still get without swapping */
  readonly available: number;
  readonly free: number;
  /** page cache and buffers */
  readonly cached: number;
}

/** Bytes from `/proc/meminfo`, whose `kB` are KiB. */
export function parseMeminfo(text: string): MemoryUse {
  const kib = (name: string): number => Number(new RegExp(`^${name}:\\s+(\\d+) kB$`, "m").exec(text)?.[1] ?? 0);
  return {
    total: kib("MemTotal") * 1024,
    available: kib("MemAvailable") * 1024,
    free: kib("MemFree") * 1024,
    cached: (kib("Cached") + kib("Buffers")) * 1024,
  };
}

/**
 * What PID 1 prepares once, before any service runs: the remaining mounts, device links, private places, limits and the
 * name of the guest. Nothing here is fatal: what fails is logged by name, and the guest comes up without it.
 */
import { accessSync, chmodSync, constants, mkdirSync, readFileSync, symlinkSync } from "node:fs";
import type { BootConfig } from "#protocol/boot-config.ts";
import type { Log } from "#sys/log.ts";
import { mountFilesystem } from "#sys/mount.ts";
import { setHostname, setOpenFileLimit } from "#sys/system.ts";
import { readImageFile } from "./image-file.ts";
import { type MountRow, planMounts } from "./mount-plan.ts";
import { parseMountTable } from "./mount-table.ts";

const defaultHostname = "vmapp";
/** the kernel starts with 1024/4096, too few for an agent with a thousand connections */
const openFiles = { soft: 1024, hard: 524_288 };

const deviceLinks = [
  ["/proc/self/fd", "/dev/fd"],
  ["/proc/self/fd/0", "/dev/stdin"],
  ["/proc/self/fd/1", "/dev/stdout"],
  ["/proc/self/fd/2", "/dev/stderr"],
] as const;

const privatePlaces = [
  { path: "/run/vmapp", mode: 0o755 },
  { path: "/var/lib/vmapp", mode: 0o700 },
] as const;

export function boot({ config, log }: { config: BootConfig; log: Log }): void {
  const attempt = (what: string, task: () => void): void => {
    try {
      task();
    } catch (error) {
      log.warn(`cannot ${what}`, { error: error instanceof Error ? error.message : String(error) });
    }
  };
  const mounted = new Set(parseMountTable(readFileSync("/proc/self/mountinfo", "utf8")).map((entry) => entry.target));
  for (const row of planMounts(mounted)) attempt(`mount ${row.target}`, () => mountRow(row));
  for (const [target, path] of deviceLinks) attempt(`link ${path}`, () => linkOnce(target, path));
  for (const { path, mode } of privatePlaces) attempt(`make ${path}`, () => makeDirectory(path, mode));
  attempt("raise the limit of open files", () => setOpenFileLimit(openFiles));
  attempt("set the host name", () => setHostname(config.hostname ?? imageHostname() ?? defaultHostname));
}

function mountRow(row: MountRow): void {
  const made = mkdirSync(row.target, { recursive: true }) !== undefined;
  if (!row.unlessWritable || !isWritable(row.target)) mountFilesystem(row);
  else if (made) chmodSync(row.target, 0o1777);
}

/** EROFS counts even for root, whom modes do not stop. */
function isWritable(path: string): boolean {
  try {
    accessSync(path, constants.W_OK);
    return true;
  } catch {
    return false;
  }
}

function linkOnce(target: string, path: string): void {
  try {
    symlinkSync(target, path);
  } catch (error) {
    if (!(error instanceof Error && "code" in error && error.code === "EEXIST")) throw error;
  }
}

function makeDirectory(path: string, mode: number): void {
  mkdirSync(path, { recursive: true, mode });
  chmodSync(path, mode);
}

/** First line of the image's /etc/hostname, unless it is missing, empty or no file. */
function imageHostname(): string | undefined {
  try {
    return readImageFile("/etc/hostname")?.split("\n")[0]?.trim() || undefined;
  } catch {
    return undefined;
  }
}

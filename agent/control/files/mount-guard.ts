import { readFile, realpath } from "node:fs/promises";
import { posix } from "node:path";
import { RequestError, systemFailure } from "../request-error.ts";
import { isBeneath } from "./guest-paths.ts";

/**
 * Throws `busy` for a path that is a mount point or holds one: what is mounted there may be a folder of the host, and removing or
 * moving the path would reach into it.
 */
export async function refuseMounts(path: string): Promise<void> {
  if (path === "/") throw new RequestError("denied", "/ cannot be removed or renamed");
  let real: string;
  try {
    real = posix.join(await realpath(posix.dirname(path)), posix.basename(path));
  } catch (cause) {
    throw systemFailure("realpath", cause);
  }
  const mounts = parseMountPoints(await readFile("/proc/self/mountinfo", "utf8"));
  const mounted = mounts.find((point) => isBeneath(point, real));
  if (mounted === undefined) return;
  throw new RequestError(
    "busy",
    mounted === real ? `${path} is a mount point` : `${mounted} is mounted beneath ${path}`,
  );
}

/** Mount points of a mountinfo file, unescaped; see proc(5). */
export function parseMountPoints(mountinfo: string): readonly string[] {
  return mountinfo
    .split("\n")
    .map((line) => line.split(" ")[4])
    .filter((field) => field !== undefined)
    .map((field) =>
      field.replace(/\\([0-7]{3})/g, (_, octal: string) => String.fromCharCode(Number.parseInt(octal, 8))),
    );
}

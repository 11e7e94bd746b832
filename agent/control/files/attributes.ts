import type { Stats } from "node:fs";
import { stat } from "node:fs/promises";
import type { FileEntry } from "#protocol/control/replies.ts";

/** Octal text of the nine permission bits, as in `644` (companion §6.2). */
export function permOf({ mode }: Stats): string {
  return (mode & 0o777).toString(8);
}

/** Everything that is no folder and no link is a `file` to v1; `special` is an extension that tells what cannot be read. */
export function typeOf(stats: Stats): FileEntry["type"] {
  if (stats.isDirectory()) return "dir";
  return stats.isSymbolicLink() ? "link" : "file";
}

export function isSpecial(stats: Stats): boolean {
  return typeOf(stats) === "file" && !stats.isFile();
}

/** Whether a path leads to a folder, links followed. */
export async function leadsToFolder(path: string): Promise<boolean> {
  try {
    return (await stat(path)).isDirectory();
  } catch {
    return false;
  }
}

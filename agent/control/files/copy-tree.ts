import type { Stats } from "node:fs";
import { chmod, copyFile, lchown, lstat, mkdir, readdir, readlink, symlink, utimes } from "node:fs/promises";
import { join } from "node:path";
import { RequestError } from "../request-error.ts";

/** Copies a file, link or folder with owner, mode and times. Links stay links. Throws for what cannot be copied. */
export async function copyTree(from: string, to: string): Promise<void> {
  const stats = await lstat(from);
  if (stats.isSymbolicLink()) {
    await symlink(await readlink(from, { encoding: "buffer" }), to);
    await lchown(to, stats.uid, stats.gid);
    return;
  }
  if (stats.isDirectory()) {
    await mkdir(to, { mode: 0o700 });
    for (const name of await readdir(from)) await copyTree(join(from, name), join(to, name));
  } else if (stats.isFile()) {
    await copyFile(from, to);
  } else {
    throw new RequestError(
      "io",
      `rename failed: ${from} is neither file, folder nor link, and is on another filesystem`,
    );
  }
  await keepAttributes(stats, to);
}

async function keepAttributes(stats: Stats, to: string): Promise<void> {
  await lchown(to, stats.uid, stats.gid);
  await chmod(to, stats.mode & 0o7777);
  await utimes(to, stats.atimeMs / 1000, stats.mtimeMs / 1000);
}

import type { Stats } from "node:fs";
import { chmod, copyFile, lchown, lstat, mkdir, readdir, readlink, symlink, utimes } from "node:fs/promises";
import { fileTime } from "#protocol/control/file-time.ts";
import { RequestError } from "../request-error.ts";

/** Copies a file, link or folder with owner, mode and times. Links stay links. Throws for what cannot be copied. */
export function copyTree(from: string, to: string): Promise<void> {
  return copyEntry(Buffer.from(from), Buffer.from(to));
}

/** Names below the root are bytes: they need not be UTF-8. */
async function copyEntry(from: Buffer, to: Buffer): Promise<void> {
  const stats = await lstat(from);
  if (stats.isSymbolicLink()) {
    await symlink(await readlink(from, { encoding: "buffer" }), to);
    await lchown(to, stats.uid, stats.gid);
    return;
  }
  if (stats.isDirectory()) {
    await mkdir(to, { mode: 0o700 });
    for (const name of await readdir(from, { encoding: "buffer" })) await copyEntry(below(from, name), below(to, name));
  } else if (stats.isFile()) {
    await copyFile(from, to);
  } else {
    throw new RequestError(
      "io",
      `rename failed: ${from.toString()} is neither file, folder nor link, and is on another filesystem`,
    );
  }
  await keepAttributes(stats, to);
}

function below(folder: Buffer, name: Buffer): Buffer {
  return Buffer.concat([folder, Buffer.from("/"), name]);
}

async function keepAttributes(stats: Stats, to: Buffer): Promise<void> {
  await lchown(to, stats.uid, stats.gid);
  await chmod(to, stats.mode & 0o7777);
  await utimes(to, fileTime(stats.atimeMs / 1000), fileTime(stats.mtimeMs / 1000));
}

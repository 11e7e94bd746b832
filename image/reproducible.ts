/** Archives whose bytes depend on their contents alone: sorted names, one time stamp, owner root. */

import { existsSync } from "node:fs";
import { chmod, lstat, lutimes, mkdir, readdir, rename, rm } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { runCommand } from "#image/command.ts";

/** One second after the epoch: some tools take 0 for "not set". */
const timeStamp = 1;

export interface SquashfsOptions {
  readonly source: string;
  readonly target: string;
  /** `none` stores file data as it is */
  readonly compression: "none" | "lz4" | "zstd";
  /** size of a data block in bytes */
  readonly blockSize: number;
}

/** Packs a directory into a squashfs file. The target is replaced as a whole. */
export async function packSquashfs({ source, target, compression, blockSize }: SquashfsOptions): Promise<void> {
  const temporary = await prepareTarget(target);
  const compressor = {
    none: ["-comp", "lz4", "-noI", "-noD", "-noF", "-noX"],
    lz4: ["-comp", "lz4", "-Xhc"],
    zstd: ["-comp", "zstd", "-Xcompression-level", "19"],
  }[compression];
  // mksquashfs refuses its own time options when this variable is set as well.
  const { SOURCE_DATE_EPOCH: _, ...env } = process.env;
  const time = String(timeStamp);
  await runCommand(
    ["mksquashfs", source, temporary, "-noappend", "-no-progress", "-quiet", "-all-root", "-no-xattrs", "-no-exports"]
      .concat("-mkfs-time", time, "-all-time", time, "-b", String(blockSize))
      .concat(compressor),
    { env },
  );
  await rename(temporary, target);
}

/** Packs a directory into an initramfs: a cpio archive (newc) compressed with zstd. The target is replaced as a whole. */
export async function packInitramfs(source: string, target: string): Promise<void> {
  const temporary = await prepareTarget(target);
  const paths = await listTree(source);
  for (const path of paths) await lutimes(join(source, path), timeStamp, timeStamp);
  const archive = `${resolve(temporary)}.cpio`;
  await runCommand(
    ["cpio", "--create", "--format=newc", "--reproducible", "--null", "--quiet", "--owner=+0:+0", "--file", archive],
    { cwd: source, stdin: paths.map((path) => `${path}\0`).join("") },
  );
  await runCommand(["zstd", "-19", "--quiet", "--force", "--no-progress", archive, "-o", temporary]);
  await rm(archive);
  await rename(temporary, target);
}

/** Gives every directory and every executable file of a tree mode 0755 and every other file 0644, whatever the umask. */
export async function normaliseModes(directory: string): Promise<void> {
  for (const path of await listTree(directory)) {
    const file = join(directory, path);
    const stats = await lstat(file);
    if (stats.isSymbolicLink()) continue;
    await chmod(file, stats.isDirectory() || (stats.mode & 0o100) !== 0 ? 0o755 : 0o644);
  }
}

/** All paths below a directory, relative to it and sorted; the directory itself comes first as `.`. Follows no links. */
async function listTree(directory: string): Promise<string[]> {
  const paths: string[] = [];
  const walk = async (parent: string): Promise<void> => {
    // The recursive mode of readdir walks through symbolic links, out of the tree.
    for (const entry of await readdir(join(directory, parent), { withFileTypes: true })) {
      const path = join(parent, entry.name);
      paths.push(path);
      if (entry.isDirectory()) await walk(path);
    }
  };
  await walk(".");
  return [".", ...paths.toSorted((a, b) => (a < b ? -1 : 1))];
}

async function prepareTarget(target: string): Promise<string> {
  await mkdir(dirname(target), { recursive: true });
  const temporary = `${target}.partial`;
  if (existsSync(temporary)) await rm(temporary);
  return temporary;
}

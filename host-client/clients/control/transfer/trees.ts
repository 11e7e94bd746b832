/** What a folder transfer consists of, found out before it begins: so that totals are known and names are checked first. */
import { readdir, stat } from "node:fs/promises";
import { join, posix } from "node:path";
import { isPlainName } from "#protocol/control/plain-name.ts";
import type { FileEntry } from "#protocol/control/replies.ts";
import type { ControlConnection } from "../connection.ts";
import { ControlError } from "../error.ts";
import { listFolder, statEntry } from "../files.ts";

/** a guest could pretend a tree without end */
const maxDepth = 200;

export interface TreeFile {
  /** path below the root of the tree, with `/` */
  readonly path: string;
  readonly size: number;
  /** permission bits */
  readonly mode: number;
  /** a link of a stock daemon's, which does not tell whether there is a file behind it */
  readonly uncertain?: boolean;
}

export interface TreeFolder {
  /** path below the root of the tree; empty for the root */
  readonly path: string;
  readonly mode: number;
}

export interface Tree {
  /** parents before their children */
  readonly folders: readonly TreeFolder[];
  readonly files: readonly TreeFile[];
  /** what is left out: links to folders, links to nowhere, FIFOs, sockets, devices */
  readonly skipped: readonly string[];
  /** left out besides: entries of the guest whose names are not UTF-8 */
  readonly notUtf8: number;
}

/** The tree below a folder of the host. Links to files are followed, as scp does. */
export async function localTree(root: string): Promise<Tree> {
  const folders: TreeFolder[] = [];
  const files: TreeFile[] = [];
  const skipped: string[] = [];
  const visit = async (path: string): Promise<void> => {
    const absolute = join(root, path);
    folders.push({ path, mode: (await stat(absolute)).mode & 0o777 });
    for (const entry of await readdir(absolute, { withFileTypes: true })) {
      const below = posix.join(path, entry.name);
      if (entry.isDirectory()) {
        await visit(below);
        continue;
      }
      const stats = await stat(join(root, below)).catch(() => undefined);
      if (stats?.isFile()) files.push({ path: below, size: stats.size, mode: stats.mode & 0o777 });
      else skipped.push(below);
    }
  };
  await visit("");
  return { folders, files, skipped, notUtf8: 0 };
}

/**
 * The tree below a folder of the guest. Throws {@link ControlError} `protocol` for a name that could lead out of the folder that it is
 * to be written to: a guest's names are not to be trusted.
 */
export async function guestTree(control: ControlConnection, root: string, rootMode: number): Promise<Tree> {
  const folders: TreeFolder[] = [];
  const files: TreeFile[] = [];
  const skipped: string[] = [];
  let notUtf8 = 0;
  const visit = async (path: string, mode: number, depth: number): Promise<void> => {
    if (depth > maxDepth) throw new ControlError("protocol", `${root}: folders are nested more than ${maxDepth} deep`);
    folders.push({ path, mode });
    const content = await listFolder(control, posix.join(root, path));
    notUtf8 += content.notUtf8;
    for (const entry of content.entries) {
      if (!isPlainName(entry.name))
        throw new ControlError("protocol", `the guest lists ${JSON.stringify(entry.name)}, which is no file name`);
      const below = posix.join(path, entry.name);
      const entryMode = Number.parseInt(entry.perm, 8) & 0o777;
      if (entry.type === "dir") {
        await visit(below, entryMode, depth + 1);
        continue;
      }
      const file = entry.type === "link" ? await behindLink(control, posix.join(root, below), entry) : entry;
      if (file === undefined || file.special === true) skipped.push(below);
      else {
        const uncertain = entry.type === "link" && !control.hasCap("file.stat");
        files.push({ path: below, size: file.size, mode: Number.parseInt(file.perm, 8) & 0o777, uncertain });
      }
    }
  };
  await visit("", rootMode, 0);
  return { folders, files, skipped, notUtf8 };
}

/** The file that a link leads to; undefined for one to a folder, to nowhere or in circles. A stock daemon tells folders only. */
async function behindLink(
  control: ControlConnection,
  path: string,
  entry: FileEntry,
): Promise<Pick<FileEntry, "size" | "perm" | "special"> | undefined> {
  if (entry.link_target_dir) return undefined;
  if (!control.hasCap("file.stat")) return { size: 0, perm: entry.perm };
  try {
    const target = await statEntry(control, path);
    return target?.type === "file" ? target : undefined;
  } catch (error) {
    if (error instanceof ControlError && error.code === "denied") return undefined;
    throw error;
  }
}

/** What a folder transfer consists of, found out before it begins: so that totals are known and names are checked first. */
import { readdir, stat } from "node:fs/promises";
import { join, posix } from "node:path";
import { isPlainName } from "#protocol/control/plain-name.ts";
import type { ControlConnection } from "../connection.ts";
import { ControlError } from "../error.ts";
import { listFolder } from "../files.ts";

/** a guest could pretend a tree without end */
const maxDepth = 200;

export interface TreeFile {
  /** path below the root of the tree, with `/` */
  readonly path: string;
  readonly size: number;
  /** permission bits */
  readonly mode: number;
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
  return { folders, files, skipped };
}

/**
 * The tree below a folder of the guest. Throws {@link ControlError} `protocol` for a name that could lead out of the folder that it is
 * to be written to: a guest's names are not to be trusted.
 */
export async function guestTree(control: ControlConnection, root: string, rootMode: number): Promise<Tree> {
  const folders: TreeFolder[] = [];
  const files: TreeFile[] = [];
  const skipped: string[] = [];
  const visit = async (path: string, mode: number, depth: number): Promise<void> => {
    if (depth > maxDepth) throw new ControlError("protocol", `${root}: folders are nested more than ${maxDepth} deep`);
    folders.push({ path, mode });
    for (const entry of await listFolder(control, posix.join(root, path))) {
      if (!isPlainName(entry.name))
        throw new ControlError("protocol", `the guest lists ${JSON.stringify(entry.name)}, which is no file name`);
      const below = posix.join(path, entry.name);
      const entryMode = Number.parseInt(entry.perm, 8) & 0o777;
      if (entry.type === "dir") await visit(below, entryMode, depth + 1);
      else if (entry.special === true || (entry.type === "link" && entry.link_target_dir)) skipped.push(below);
      else files.push({ path: below, size: entry.type === "link" ? 0 : entry.size, mode: entryMode });
    }
  };
  await visit("", rootMode, 0);
  return { folders, files, skipped };
}

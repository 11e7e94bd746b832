import { statfs } from "node:fs/promises";

/** Bytes that are left where the folder is; undefined where the filesystem does not count them, as ramfs does not. */
export async function freeBytes(folder: string): Promise<number | undefined> {
  const { blocks, bavail, bsize } = await statfs(folder);
  return blocks === 0 ? undefined : bavail * bsize;
}

/** `read`: part of a file, at most one frame of it. */
import { constants } from "node:fs";
import type { FileHandle } from "node:fs/promises";
import type { ReadParams, ReadResult } from "#protocol/console/calls.ts";
import { ByteChunks } from "#protocol/console/document-writer.ts";
import { maxBlobBytes } from "#protocol/console/limits.ts";
import { fileError } from "./file-error.ts";
import { openRegular } from "./regular-file.ts";

/** Throws ConsoleError `notFound`, `isDirectory` or `ioFailed`. */
export async function readFile(path: string, { path: asSent, offset = 0, len }: ReadParams): Promise<ReadResult> {
  try {
    const { handle, stats } = await openRegular(path, asSent, constants.O_RDONLY);
    try {
      if (stats.size === 0) return await readUnsized(handle, offset, len ?? maxBlobBytes);
      const want = Math.max(0, Math.min(len ?? maxBlobBytes, stats.size - offset, maxBlobBytes));
      return { data: await readFully(handle, offset, want), size: stats.size };
    } finally {
      await handle.close();
    }
  } catch (error) {
    throw fileError(asSent, error);
  }
}

/** Up to `want` bytes from `offset`; fewer when the file has shrunk meanwhile. */
async function readFully(handle: FileHandle, offset: number, want: number): Promise<Uint8Array> {
  const data = Buffer.allocUnsafeSlow(want);
  let filled = 0;
  while (filled < want) {
    const { bytesRead } = await handle.read(data, filled, want - filled, offset + filled);
    if (bytesRead === 0) break;
    filled += bytesRead;
  }
  return data.subarray(0, filled);
}

const blockBytes = 64 * 1024;

/**
 * A file that says it has no bytes: empty, or one of the kernel's (/proc, /sys), whose size is known only by reading it
 * from its start to its end. One that has nothing to say yet, such as /proc/kmsg, ends there.
 */
async function readUnsized(handle: FileHandle, offset: number, len: number): Promise<ReadResult> {
  const blocks: Uint8Array[] = [];
  let size = 0;
  while (size < maxBlobBytes) {
    const block = Buffer.allocUnsafeSlow(Math.min(blockBytes, maxBlobBytes - size));
    const count = await readSome(handle, block);
    if (count === 0) break;
    size += count;
    blocks.push(block.subarray(0, count));
  }
  const data = new ByteChunks(blocks).join();
  return { data: data.subarray(offset, Math.min(size, offset + len)), size };
}

async function readSome(handle: FileHandle, block: Uint8Array): Promise<number> {
  try {
    return (await handle.read(block, 0, block.length, null)).bytesRead;
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "EAGAIN") return 0;
    throw error;
  }
}

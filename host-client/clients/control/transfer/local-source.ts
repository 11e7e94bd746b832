import { constants } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { ControlError } from "../error.ts";
import type { UploadSource } from "../upload.ts";

const chunkBytes = 512 * 1024;

/** A file of the host to upload. The opener closes it. */
export interface LocalSource extends UploadSource {
  /** permission bits */
  readonly mode: number;
  /** seconds since the epoch */
  readonly mtime: number;
  close(): Promise<void>;
}

/** Throws {@link ControlError} `local` when the path cannot be opened or is no regular file. */
export async function openLocalSource(path: string): Promise<LocalSource> {
  let file: FileHandle;
  try {
    // The opening of a FIFO would wait for a writer.
    file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK);
  } catch (cause) {
    throw new ControlError("local", `cannot open ${path}: ${(cause as Error).message}`, { cause });
  }
  const stats = await file.stat();
  if (!stats.isFile()) {
    await file.close();
    throw new ControlError("local", `${path} is not a regular file`);
  }
  async function* pieces(): AsyncGenerator<Uint8Array> {
    // The next chunk is read while the one before it is sent.
    let ahead = readChunk(file);
    try {
      for (let chunk = await ahead; chunk.length > 0; chunk = await ahead) {
        ahead = readChunk(file);
        // Taken up when it is awaited; until then nobody may take its failure for unhandled.
        ahead.catch(() => {});
        yield chunk;
      }
    } finally {
      // The file is closed next.
      await ahead.catch(() => {});
    }
    const now = await file.stat();
    if (now.mtimeMs !== stats.mtimeMs || now.size !== stats.size)
      throw new ControlError("changed", `${path} changed while it was read`);
  }
  return {
    size: stats.size,
    pieces: pieces(),
    mode: stats.mode & 0o777,
    mtime: stats.mtimeMs / 1000,
    close: () => file.close(),
  };
}

async function readChunk(file: FileHandle): Promise<Buffer> {
  const chunk = Buffer.allocUnsafe(chunkBytes);
  const { bytesRead } = await file.read(chunk, 0, chunkBytes, null);
  return chunk.subarray(0, bytesRead);
}

/** `write`: replaces a file, or overwrites part of one. */
import { constants } from "node:fs";
import type { WriteParams } from "#protocol/console/calls.ts";
import { joined } from "#protocol/console/members.ts";
import { fileError } from "./file-error.ts";
import { openRegular } from "./regular-file.ts";

/** Throws ConsoleError `notFound` (a directory above it), `isDirectory` or `ioFailed`. */
export async function writeFile(path: string, { path: asSent, data, offset }: WriteParams): Promise<{ size: number }> {
  const bytes = joined(data);
  const flags = constants.O_WRONLY | constants.O_CREAT | (offset === undefined ? constants.O_TRUNC : 0);
  try {
    const { handle, stats } = await openRegular(path, asSent, flags);
    try {
      const start = offset ?? 0;
      // Nothing to write beyond the end still extends the file.
      if (bytes.length === 0 && start > stats.size) await handle.truncate(start);
      let written = 0;
      while (written < bytes.length) {
        written += (await handle.write(bytes, written, bytes.length - written, start + written)).bytesWritten;
      }
      return { size: (await handle.stat()).size };
    } finally {
      await handle.close();
    }
  } catch (error) {
    throw fileError(asSent, error);
  }
}

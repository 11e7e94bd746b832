/** Copies a command's output to its client, one contiguous frame a read, never reading ahead of the client. */
import { frameType, headerBytes, writeHeader } from "#protocol/shell/frames.ts";
import type { FdReader } from "#sys/stream-fd.ts";
import type { ClientLink } from "./link.ts";

/** payload of an output frame at most, in bytes */
const chunkBytes = 128 * 1024;
/** below this a frame is copied, so that a line of text does not hold a whole buffer */
const copyBelowBytes = 8 * 1024;
/** bytes after which a flooding session lets the event loop serve the others */
const sliceBytes = 1024 * 1024;

const maxSpareBuffers = 8;
const spareBuffers: Uint8Array[] = [];

function takeBuffer(): Uint8Array {
  return spareBuffers.pop() ?? new Uint8Array(headerBytes + chunkBytes);
}

function giveBack(buffer: Uint8Array): void {
  if (spareBuffers.length < maxSpareBuffers) spareBuffers.push(buffer);
}

export interface OutputProgress {
  /** output bytes read from the command so far */
  bytesRead: number;
}

/** Resolves when the output has ended, its reader was closed, or the client is gone. */
export async function pumpOutput({
  reader,
  type,
  link,
  progress,
}: {
  reader: FdReader;
  type: "stdout" | "stderr";
  link: ClientLink;
  progress: OutputProgress;
}): Promise<void> {
  let slice = 0;
  while (!link.closed) {
    if (!link.hasRoom) await link.room();
    const buffer = takeBuffer();
    const count = reader.tryRead(buffer, headerBytes, chunkBytes);
    if (count <= 0) {
      giveBack(buffer);
      if (count === 0) return;
      slice = 0;
      await reader.readable();
      continue;
    }
    progress.bytesRead += count;
    writeHeader(buffer, 0, frameType[type], count);
    if (count < copyBelowBytes) {
      link.write(buffer.slice(0, headerBytes + count));
      giveBack(buffer);
    } else {
      link.write(buffer.subarray(0, headerBytes + count), () => giveBack(buffer));
    }
    slice += count;
    if (slice >= sliceBytes) {
      slice = 0;
      await new Promise((resolve) => setImmediate(resolve));
    }
  }
}

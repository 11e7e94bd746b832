/** Copies a command's output to its client, one contiguous frame a read, never reading ahead of the client. */
import { frameType, headerBytes, writeHeader } from "#protocol/shell/frames.ts";
import type { FdReader } from "#sys/stream-fd.ts";
import type { ClientLink } from "./link.ts";

/** payload of an output frame at most, in bytes */
const chunkBytes = 128 * 1024;
/**
 * Where the payload starts in its buffer, the header right before it. The kernel copies to an aligned address four times
 * as fast as to one that is 5 bytes off.
 */
const payloadOffset = 64;
const frameOffset = payloadOffset - headerBytes;
/** below this a frame is copied, so that a line of text does not hold a whole buffer */
const copyBelowBytes = 8 * 1024;
/** bytes after which a flooding session lets the event loop serve the others */
const sliceBytes = 1024 * 1024;

const maxSpareBuffers = 8;
const spareBuffers: Uint8Array[] = [];

function takeBuffer(): Uint8Array {
  return spareBuffers.pop() ?? new Uint8Array(payloadOffset + chunkBytes);
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
    const count = reader.tryRead(buffer, payloadOffset, chunkBytes);
    if (count <= 0) {
      giveBack(buffer);
      if (count === 0) return;
      slice = 0;
      await reader.readable();
      continue;
    }
    progress.bytesRead += count;
    writeHeader(buffer, frameOffset, frameType[type], count);
    if (count < copyBelowBytes) {
      link.write(buffer.slice(frameOffset, payloadOffset + count));
      giveBack(buffer);
    } else {
      link.write(buffer.subarray(frameOffset, payloadOffset + count), () => giveBack(buffer));
    }
    slice += count;
    if (slice >= sliceBytes) {
      slice = 0;
      await new Promise((resolve) => setImmediate(resolve));
    }
  }
}

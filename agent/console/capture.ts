/** Keeps the beginning of a command's output and reads the rest away, so that a flood neither stops nor fills anything. */
import { ByteChunks } from "#protocol/console/document-writer.ts";
import type { FdReader } from "#sys/stream-fd.ts";

export interface Captured {
  readonly bytes: ByteChunks;
  /** whether more was written than is kept */
  readonly cut: boolean;
}

const firstBlockBytes = 16 * 1024;
const maxBlockBytes = 1024 * 1024;
/** bytes after which a flooding command lets the event loop serve the others */
const sliceBytes = 1024 * 1024;

/** where output beyond the cap goes; nobody looks at it */
const discarded = new Uint8Array(64 * 1024);

/** Resolves at the end of the output, or when its reader is closed. */
export async function captureOutput(reader: FdReader, cap: number): Promise<Captured> {
  const full: Uint8Array[] = [];
  let kept = 0;
  let cut = false;
  let block = Buffer.allocUnsafeSlow(0);
  let filled = 0;
  let slice = 0;
  for (;;) {
    if (filled === block.length && kept < cap) {
      if (filled > 0) full.push(block);
      block = Buffer.allocUnsafeSlow(Math.min(Math.max(firstBlockBytes, block.length * 4), maxBlockBytes, cap - kept));
      filled = 0;
    }
    const room = block.length - filled;
    const count = room > 0 ? reader.tryRead(block, filled, room) : reader.tryRead(discarded, 0, discarded.length);
    if (count === 0) break;
    if (count < 0) {
      slice = 0;
      await reader.readable();
      continue;
    }
    if (room > 0) {
      filled += count;
      kept += count;
    } else {
      cut = true;
    }
    slice += count;
    if (slice >= sliceBytes) {
      slice = 0;
      await new Promise((resolve) => setImmediate(resolve));
    }
  }
  if (filled > 0) full.push(block.subarray(0, filled));
  return { bytes: new ByteChunks(full), cut };
}

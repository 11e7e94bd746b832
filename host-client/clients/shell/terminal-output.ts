import { write } from "node:fs";

/** written at a time, in bytes: so much of a flood still comes after a `~.` on a slow terminal */
const pieceBytes = 16 * 1024;
const retryMs = 5;

/**
 * Writes to a terminal and resolves when it has taken everything. A terminal that is slow, or stopped, holds up a thread
 * of the pool and not the event loop, which a write to the runtime's own stream would: keys, signals and sizes still pass.
 */
export async function writeToTerminal(fd: number, bytes: Uint8Array): Promise<void> {
  let offset = 0;
  while (offset < bytes.length) offset += await writeOnce(fd, bytes.subarray(offset, offset + pieceBytes));
}

function writeOnce(fd: number, piece: Uint8Array): Promise<number> {
  return new Promise((resolve, reject) => {
    write(fd, piece, (error, written) => {
      if (error === null || error === undefined) resolve(written);
      // Somebody who shares the terminal made it non-blocking.
      else if (error.code === "EAGAIN") setTimeout(() => resolve(0), retryMs);
      else reject(error);
    });
  });
}

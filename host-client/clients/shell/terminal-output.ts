/** The way to the screen. */
import { closeSync, constants, openSync, write, writeSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import type { WriteStream } from "node:tty";

/** written at a time, in bytes */
const pieceBytes = 16 * 1024;
/** how long to wait for a terminal that is full before the next try, in milliseconds: doubled from the first to the last */
const firstPauseMs = 1;
const lastPauseMs = 16;

/**
 * Writes to the user's terminal without ever standing still in it: the runtime's own stream blocks the whole process while
 * a terminal is slow or stopped, and a thread that blocks in it keeps the terminal's settings from being restored. So a
 * terminal is opened once more, non-blocking; the description that is shared with the user's shell stays as it is.
 */
export class TerminalOutput {
  readonly #fd: number;
  /** the terminal, opened non-blocking; undefined for what is no terminal */
  #reopened: number | undefined;
  #closed = false;

  constructor(stream: WriteStream & { readonly fd: number }) {
    this.#fd = stream.fd;
    this.#reopened = stream.isTTY ? reopen(stream.fd) : undefined;
  }

  /** Resolves when the terminal has taken everything, or this was closed. Rejects with the system's error. */
  async write(bytes: Uint8Array): Promise<void> {
    let offset = 0;
    let pauseMs = firstPauseMs;
    while (offset < bytes.length && !this.#closed) {
      const piece = bytes.subarray(offset, offset + pieceBytes);
      const written =
        this.#reopened === undefined ? await writeBlocking(this.#fd, piece) : tryWrite(this.#reopened, piece);
      if (written > 0) {
        offset += written;
        pauseMs = firstPauseMs;
      } else {
        await sleep(pauseMs);
        pauseMs = Math.min(2 * pauseMs, lastPauseMs);
      }
    }
  }

  /** Gives up what has not been written yet. */
  close(): void {
    this.#closed = true;
    if (this.#reopened !== undefined) closeSync(this.#reopened);
    this.#reopened = undefined;
  }
}

function reopen(fd: number): number | undefined {
  try {
    return openSync(`/proc/self/fd/${fd}`, constants.O_WRONLY | constants.O_NONBLOCK | constants.O_NOCTTY);
  } catch {
    // No /proc, or a terminal of another user, as after su: then a thread of the pool waits for it.
    return undefined;
  }
}

/** Returns how many bytes it took; 0 when it is full. */
function tryWrite(fd: number, piece: Uint8Array): number {
  try {
    return writeSync(fd, piece);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EAGAIN") return 0;
    throw error;
  }
}

function writeBlocking(fd: number, piece: Uint8Array): Promise<number> {
  return new Promise((resolve, reject) => {
    write(fd, piece, (error, written) => {
      if (error === null || error === undefined) resolve(written);
      // Somebody who shares it made it non-blocking.
      else if (error.code === "EAGAIN") resolve(0);
      else reject(error);
    });
  });
}

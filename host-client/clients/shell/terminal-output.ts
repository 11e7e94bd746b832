/** The way to the screen. */
import { closeSync, constants, openSync, write, writeSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import type { WriteStream } from "node:tty";

/** written at a time, in bytes */
const pieceBytes = 16 * 1024;
/** between tries of what somebody else has made non-blocking, in milliseconds */
const retryMs = 5;

/**
 * Writes to the user's terminal without standing still in it: the runtime's own stream blocks the whole process while a
 * terminal is slow or stopped. So a terminal is opened once more, non-blocking (the description that is shared with the
 * user's shell stays as it is), and when it is full a thread of the pool waits for it.
 */
export class TerminalOutput {
  readonly #fd: number;
  /** the terminal, opened non-blocking; undefined for what is no terminal */
  #reopened: number | undefined;
  #waiting = false;
  #closed = false;

  constructor(stream: WriteStream & { readonly fd: number }) {
    this.#fd = stream.fd;
    this.#reopened = stream.isTTY ? reopen(stream.fd) : undefined;
  }

  /** Whether a thread waits in the terminal. Until it returns, the settings of the terminal cannot be changed after it. */
  get waiting(): boolean {
    return this.#waiting;
  }

  /** Resolves when the terminal has taken everything, or this was closed. Rejects with the system's error. */
  async write(bytes: Uint8Array): Promise<void> {
    let offset = 0;
    while (offset < bytes.length && !this.#closed) {
      const piece = bytes.subarray(offset, offset + pieceBytes);
      const written = this.#reopened === undefined ? 0 : tryWrite(this.#reopened, piece);
      offset += written > 0 ? written : await this.#writeWaiting(piece);
    }
  }

  /** Gives up what has not been written yet. */
  close(): void {
    this.#closed = true;
    if (this.#reopened !== undefined) closeSync(this.#reopened);
    this.#reopened = undefined;
  }

  async #writeWaiting(piece: Uint8Array): Promise<number> {
    this.#waiting = true;
    try {
      return await writeBlocking(this.#fd, piece);
    } finally {
      this.#waiting = false;
    }
  }
}

function reopen(fd: number): number | undefined {
  try {
    return openSync(`/proc/self/fd/${fd}`, constants.O_WRONLY | constants.O_NONBLOCK | constants.O_NOCTTY);
  } catch {
    // No /proc, or a terminal of another user, as after su: then the thread does it all.
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
      else if (error.code === "EAGAIN") void sleep(retryMs).then(() => resolve(0));
      else reject(error);
    });
  });
}

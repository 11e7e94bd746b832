/** A descriptor of a child (pipe end or pty master) as something to read from or write to, with back-pressure. */

import { SysError } from "./errors.ts";
import { closeFd, pipeSize, readFd, setNonBlocking, WOULD_BLOCK, writeFd } from "./fd.ts";
import { Watch } from "./poller.ts";

/** Owns a non-blocking descriptor, and one waiter for its readiness at a time. */
abstract class OwnedFd {
  readonly #fd: number;
  readonly #watch: Watch;
  #wake: (() => void) | undefined;
  #closed = false;

  constructor(fd: number) {
    setNonBlocking(fd);
    this.#fd = fd;
    this.#watch = new Watch(fd);
  }

  get closed(): boolean {
    return this.#closed;
  }

  /** Closes the descriptor; whoever waits goes on and sees that. */
  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#watch.close();
    closeFd(this.#fd);
    this.nudge();
  }

  /** Lets whoever waits try again now, e.g. because the child has exited and the end may be there. */
  nudge(): void {
    const wake = this.#wake;
    this.#wake = undefined;
    wake?.();
  }

  protected get fd(): number {
    return this.#fd;
  }

  /** Resolves when the descriptor is ready in that direction, when nudged, or when closed. */
  protected ready(direction: "whenReadable" | "whenWritable"): Promise<void> {
    if (this.#closed) return Promise.resolve();
    return new Promise((resolve) => {
      this.#wake = resolve;
      this.#watch[direction](() => this.nudge());
    });
  }
}

/** Reads when asked and never ahead, so that an unread child stops at its full pipe. Owns its descriptor. */
export class FdReader extends OwnedFd {
  /**
   * Reads at most `length` bytes into `buffer` at `offset`. Returns the count, 0 at the end (also after `close`, and for
   * a pty whose last slave is gone), or -1 when a read would block: then await {@link readable}.
   */
  tryRead(buffer: Uint8Array, offset: number, length: number): number {
    if (this.closed) return 0;
    try {
      return readFd(this.fd, buffer, offset, length);
    } catch (error) {
      if (error instanceof SysError && error.code === "EIO") return 0;
      throw error;
    }
  }

  /** what the pipe can hold, in bytes; 0 for a terminal, and when closed */
  get pipeBytes(): number {
    return this.closed ? 0 : pipeSize(this.fd);
  }

  /** Resolves when a read will not block, when nudged, or when the reader is closed. One waiter at a time. */
  readable(): Promise<void> {
    return this.ready("whenReadable");
  }
}

/** Writes without ever blocking the process. Owns its descriptor; closing a pipe's is the end of the child's input. */
export class FdWriter extends OwnedFd {
  /**
   * Resolves true once every byte has been taken, false when the reader is gone or the writer was closed.
   * Writes must not overlap: await one before the next.
   */
  async write(bytes: Uint8Array): Promise<boolean> {
    let offset = 0;
    while (offset < bytes.length) {
      if (this.closed) return false;
      let count: number;
      try {
        count = writeFd(this.fd, bytes, offset);
      } catch (error) {
        if (error instanceof SysError) return false;
        throw error;
      }
      if (count === WOULD_BLOCK) await this.ready("whenWritable");
      else offset += count;
    }
    return true;
  }
}

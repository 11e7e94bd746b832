/** A descriptor of a child (pipe end or pty master) as something to read from or write to, with back-pressure. */

import { SysError } from "./errors.ts";
import { closeFd, readFd, setNonBlocking, WOULD_BLOCK, writeFd } from "./fd.ts";
import { Watch } from "./poller.ts";

/** Reads when asked and never ahead, so that an unread child stops at its full pipe. Owns its descriptor. */
export class FdReader {
  readonly #fd: number;
  readonly #watch: Watch;
  #wake: (() => void) | undefined;
  #closed = false;

  constructor(fd: number, watch?: Watch) {
    setNonBlocking(fd);
    this.#fd = fd;
    this.#watch = watch ?? new Watch(fd);
  }

  get closed(): boolean {
    return this.#closed;
  }

  /**
   * Reads at most `length` bytes into `buffer` at `offset`. Returns the count, 0 at the end (also after `close`, and for
   * a pty whose last slave is gone), or -1 when a read would block: then await {@link readable}.
   */
  tryRead(buffer: Uint8Array, offset: number, length: number): number {
    if (this.#closed) return 0;
    try {
      return readFd(this.#fd, buffer, offset, length);
    } catch (error) {
      if (error instanceof SysError && error.code === "EIO") return 0;
      throw error;
    }
  }

  /** Resolves when a read will not block, or when the reader is closed. One waiter at a time. */
  readable(): Promise<void> {
    if (this.#closed) return Promise.resolve();
    return new Promise((resolve) => {
      this.#wake = resolve;
      this.#watch.whenReadable(() => {
        this.#wake = undefined;
        resolve();
      });
    });
  }

  /** Lets whoever waits in {@link readable} try again now, e.g. because the child has exited and the end may be there. */
  nudge(): void {
    const wake = this.#wake;
    this.#wake = undefined;
    wake?.();
  }

  /** Closes the descriptor; whoever waits sees the end. */
  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#watch.close();
    closeFd(this.#fd);
    this.#wake?.();
  }
}

/** Writes without ever blocking the process. Owns its descriptor. */
export class FdWriter {
  readonly #fd: number;
  readonly #watch: Watch;
  #wake: (() => void) | undefined;
  #closed = false;

  constructor(fd: number, watch?: Watch) {
    setNonBlocking(fd);
    this.#fd = fd;
    this.#watch = watch ?? new Watch(fd);
  }

  get closed(): boolean {
    return this.#closed;
  }

  /**
   * Resolves true once every byte has been taken, false when the reader is gone or the writer was closed.
   * Writes must not overlap: await one before the next.
   */
  async write(bytes: Uint8Array): Promise<boolean> {
    let offset = 0;
    while (offset < bytes.length) {
      if (this.#closed) return false;
      let count: number;
      try {
        count = writeFd(this.#fd, bytes, offset);
      } catch (error) {
        if (error instanceof SysError) return false;
        throw error;
      }
      if (count === WOULD_BLOCK) await this.#writable();
      else offset += count;
    }
    return true;
  }

  /** Closes the descriptor, which for a pipe is the end of the child's input. */
  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#watch.close();
    closeFd(this.#fd);
    this.#wake?.();
  }

  #writable(): Promise<void> {
    return new Promise((resolve) => {
      this.#wake = resolve;
      this.#watch.whenWritable(() => {
        this.#wake = undefined;
        resolve();
      });
    });
  }
}

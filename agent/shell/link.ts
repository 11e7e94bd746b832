/** The writing side of a client's connection: bounded, and with the moment told when it has room or has run empty. */
import type { Socket } from "node:net";
import { encodeFrame, type ShellFrame } from "#protocol/shell/frames.ts";

/** output that may wait for a slow client, in bytes */
const maxQueuedBytes = 256 * 1024;

export class ClientLink {
  readonly #socket: Socket;
  #queuedBytes = 0;
  #waiting: (() => void)[] = [];

  constructor(socket: Socket) {
    this.#socket = socket;
    socket.once("close", () => this.#wake());
  }

  /** bytes handed over that the kernel has not taken yet */
  get queuedBytes(): number {
    return this.#queuedBytes;
  }

  get closed(): boolean {
    return this.#socket.destroyed || this.#socket.writableEnded;
  }

  /** Queues one whole frame; `taken` runs once the kernel has it, or never when the connection dies first. */
  write(frame: Uint8Array, taken?: () => void): void {
    if (this.closed) return;
    this.#queuedBytes += frame.length;
    this.#socket.write(frame, () => {
      this.#queuedBytes -= frame.length;
      taken?.();
      if (this.#queuedBytes < maxQueuedBytes) this.#wake();
    });
  }

  send(frame: ShellFrame): void {
    this.write(encodeFrame(frame));
  }

  /** Whether more output may be read for this client. */
  get hasRoom(): boolean {
    return this.#queuedBytes < maxQueuedBytes;
  }

  /** Resolves when the link has room, or is closed: look at {@link closed} then. */
  room(): Promise<void> {
    if (this.closed || this.hasRoom) return Promise.resolve();
    return new Promise((resolve) => this.#waiting.push(resolve));
  }

  /**
   * Sends the last frame and closes. The full close follows the flush, since on some transports a half-close never
   * reaches the host.
   */
  finish(last?: ShellFrame): void {
    if (this.closed) return;
    const socket = this.#socket;
    const close = () => socket.destroy();
    if (last === undefined) socket.end(close);
    else socket.end(encodeFrame(last), close);
    // Unread input would turn the close into a reset.
    socket.resume();
  }

  /** Closes without a further word. */
  destroy(): void {
    this.#socket.destroy();
  }

  #wake(): void {
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const resolve of waiting) resolve();
  }
}

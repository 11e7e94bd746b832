/** The writing side of a client's connection: bounded, and with the moment told when it has room or has run empty. */
import type { Socket } from "node:net";
import { encodeFrame, type ShellFrame } from "#protocol/shell/frames.ts";

/** output that may wait for a slow client, in bytes */
const maxQueuedBytes = 256 * 1024;

/** what one `window` frame can say: only a client that sends without credit could be owed more */
const maxWindowBytes = 0xffffffff;

/** how long a client may take to close its side after the last frame */
const lingerMs = 2_000;

export class ClientLink {
  readonly #socket: Socket;
  #queuedBytes = 0;
  #waiting: (() => void)[] = [];
  /** stdin credit that the client has not been told of */
  #owedBytes = 0;

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

  /**
   * Queues one whole frame. `taken` runs once the kernel has it and its memory may be used again: before this returns when
   * the client keeps up, or never when the connection dies first.
   */
  write(frame: Uint8Array, taken?: () => void): void {
    if (this.closed) return;
    let waiting = true;
    const done = () => {
      if (!waiting) return;
      waiting = false;
      this.#queuedBytes -= frame.length;
      taken?.();
      if (this.#queuedBytes < maxQueuedBytes) this.#wake();
    };
    this.#queuedBytes += frame.length;
    this.#socket.write(frame, done);
    if (this.#socket.writableLength === 0) done();
  }

  /** Sends frames in one write. */
  send(...frames: readonly ShellFrame[]): void {
    this.write(frames.length === 1 ? encodeFrame(frames[0] as ShellFrame) : Buffer.concat(frames.map(encodeFrame)));
  }

  /** Returns stdin credit. A client that does not read is owed it, and told in one frame when there is room. */
  grant(bytes: number): void {
    const isOwed = this.#owedBytes > 0;
    this.#owedBytes += bytes;
    if (isOwed) return;
    if (this.hasRoom) this.#payOwed();
    else void this.room().then(() => this.#payOwed());
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
   * Sends the last frame and our end of the stream, then closes: as soon as the client has closed its own, and at the
   * latest after {@link lingerMs}. Closing at once would turn a write that the client has under way into EPIPE, at which
   * it loses what it has not read yet; never closing would leave clients waiting where a half-close does not reach them.
   */
  finish(last: ShellFrame): void {
    if (this.closed) return;
    const socket = this.#socket;
    const close = () => socket.destroy();
    socket.once("end", close);
    socket.end(encodeFrame(last), () => {
      if (socket.readableEnded) close();
      else setTimeout(close, lingerMs).unref();
    });
    socket.removeAllListeners("data");
    socket.on("data", () => {});
    socket.resume();
  }

  /** Closes without a further word. */
  destroy(): void {
    this.#socket.destroy();
  }

  #payOwed(): void {
    const bytes = Math.min(this.#owedBytes, maxWindowBytes);
    this.#owedBytes = 0;
    this.send({ type: "window", bytes });
  }

  #wake(): void {
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const resolve of waiting) resolve();
  }
}

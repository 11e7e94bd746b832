/**
 * A session's output on its way to whoever reads it: the connection is read no further while they are behind. That has a
 * trap: an agent closes its end soon after the last frame, and a write to a closed connection costs us what we have not
 * read yet. So while output waits, a write comes after a look ahead, which finds the last frame if it has been sent.
 */
import type { Socket } from "node:net";
import { Readable } from "node:stream";

/** output that may wait in a stream before the connection is read no further, in bytes */
const bufferBytes = 256 * 1024;
/** read beyond that while a reader stays behind: more than the kernels and the transport hold of a finished session, in bytes */
const aheadBytes = 1024 * 1024;
/** how long a look ahead takes: what has arrived is read in much less, in milliseconds */
const aheadMs = 50;
/** how long what it found is good for: less than an agent waits before it closes, in milliseconds */
const safeMs = 1_000;

export class SessionOutput {
  readonly stdout = this.#stream();
  readonly stderr = this.#stream();
  readonly #socket: Socket;
  /** streams whose reader is behind */
  readonly #full = new Set<Readable>();
  /** until when what has arrived may be unread; times are those of performance.now() */
  #behindUntil = 0;
  #safeUntil = 0;
  #aheadLeft = aheadBytes;
  #looking: Promise<void> | undefined;
  #reading: PromiseWithResolvers<void> | undefined;
  #over = false;

  constructor(socket: Socket) {
    this.#socket = socket;
  }

  /** Whether output waits for its reader, so that the connection is not read. */
  get stalled(): boolean {
    return this.#full.size > 0 && !this.#over;
  }

  deliver(stream: Readable, bytes: Uint8Array): void {
    if (stream.destroyed || stream.push(bytes)) return;
    this.#full.add(stream);
    this.#behindUntil = Number.POSITIVE_INFINITY;
    if (this.#looking !== undefined) this.#aheadLeft -= bytes.length;
    if (this.#looking === undefined || this.#aheadLeft <= 0) this.#socket.pause();
  }

  /** The session is over: what was delivered is the end. */
  end(): void {
    this.#over = true;
    this.stdout.push(null);
    this.stderr.push(null);
    this.#reading?.resolve();
  }

  /**
   * When something may be written: now (undefined), or after what this returns, and then it is asked again. A reader that
   * stays behind is looked ahead of by 1 MiB and no more; after that the `patient` wait for it, and others take the risk.
   */
  beforeWrite({ patient }: { patient: boolean }): Promise<void> | undefined {
    const now = performance.now();
    if (this.#over || now >= this.#behindUntil || now < this.#safeUntil) return undefined;
    if (this.#looking !== undefined) return this.#looking;
    if (this.#aheadLeft > 0) return this.#lookAhead();
    if (!patient || !this.stalled) return undefined;
    this.#reading ??= Promise.withResolvers();
    return this.#reading.promise;
  }

  #lookAhead(): Promise<void> {
    const safeUntil = performance.now() + safeMs;
    this.#looking = new Promise((resolve) => {
      this.#socket.resume();
      setTimeout(() => {
        this.#looking = undefined;
        this.#safeUntil = safeUntil;
        if (this.stalled) this.#socket.pause();
        resolve();
      }, aheadMs);
    });
    return this.#looking;
  }

  #stream(): Readable {
    const stream: Readable = new Readable({
      highWaterMark: bufferBytes,
      read: () => this.#resume(stream),
      // Nobody reads it any more: what still arrives is dropped, and the other stream goes on.
      destroy: (error, done) => {
        this.#resume(stream);
        done(error);
      },
    });
    return stream;
  }

  /** A stream asks for more: reads on once neither of the two is full. */
  #resume(stream: Readable): void {
    const wasStalled = this.stalled;
    this.#full.delete(stream);
    if (this.#over || this.#full.size > 0) return;
    this.#socket.resume();
    if (!wasStalled) return;
    this.#behindUntil = performance.now() + aheadMs;
    this.#aheadLeft = aheadBytes;
    this.#reading?.resolve();
    this.#reading = undefined;
  }
}

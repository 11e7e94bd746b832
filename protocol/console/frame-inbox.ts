/**
 * Frames of one direction of a console channel, handed out one at a time. It holds no stream: bytes are pushed into it,
 * and it says when it wants more, so that a peer that sends ahead is stopped by its own transport.
 */
import { FrameDecoder } from "../framing.ts";
import { maxPayload } from "./limits.ts";

/** The stream ended inside a frame. */
export class TruncatedFrameError extends Error {
  override readonly name = "TruncatedFrameError";
  constructor() {
    super("unexpected EOF: the channel ended inside a frame");
  }
}

interface Waiter {
  resolve(payload: Uint8Array | undefined): void;
  reject(error: unknown): void;
}

export class FrameInbox {
  readonly #decoder = new FrameDecoder(maxPayload);
  #waiter: Waiter | undefined;
  #ended = false;
  #failure: { readonly error: unknown } | undefined;

  /** @param setFlowing called when bytes are wanted and when they are not any more */
  constructor(private readonly setFlowing: (flowing: boolean) => void) {}

  push(chunk: Uint8Array): void {
    this.#decoder.push(chunk);
    if (!this.#deliver()) this.setFlowing(this.#waiter !== undefined);
  }

  /** The stream has ended; what it left inside a frame is an error. */
  end(): void {
    this.#ended = true;
    this.#deliver();
  }

  /** The stream has failed: frames that are whole are still handed out. After its end a stream cannot fail. */
  fail(error: unknown): void {
    if (this.#ended) return;
    this.#failure ??= { error };
    this.#deliver();
  }

  /**
   * The next payload, or undefined when the channel ended between frames. Rejects with {@link TruncatedFrameError},
   * `FrameLimitError`, or what the stream failed with. One caller at a time.
   */
  next(): Promise<Uint8Array | undefined> {
    return new Promise((resolve, reject) => {
      this.#waiter = { resolve, reject };
      if (!this.#deliver()) this.setFlowing(true);
    });
  }

  /** Answers the waiter if it can be answered; returns whether it was. */
  #deliver(): boolean {
    const waiter = this.#waiter;
    if (waiter === undefined) return false;
    try {
      const payload = this.#decoder.next();
      if (payload !== undefined) this.#settle(() => waiter.resolve(payload));
      else if (this.#failure !== undefined) throw this.#failure.error;
      else if (!this.#ended) return false;
      else if (!this.#decoder.atBoundary) throw new TruncatedFrameError();
      else this.#settle(() => waiter.resolve(undefined));
    } catch (error) {
      this.#settle(() => waiter.reject(error));
    }
    return true;
  }

  #settle(answer: () => void): void {
    this.#waiter = undefined;
    this.setFlowing(false);
    answer();
  }
}

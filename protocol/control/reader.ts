/**
 * The receiving half of a control connection, for both ends: a parser of two states, `frame` and `raw(n)` (companion
 * §11.2). Whoever reads decides after each frame how many raw bytes follow it, before anything else can fail; exactly
 * that many are consumed, read or not, so no failure of a handler can put the stream out of step.
 */
import { ByteQueue } from "../byte-queue.ts";
import { FrameLimitError, frameHeaderBytes } from "../framing.ts";
import { maxFrameBytes } from "./limits.ts";
import { ControlStreamError, decodeMessage, type WireMessage } from "./message.ts";

/** Holds the sender back. Both calls may be repeated. */
export interface Flow {
  pause(): void;
  resume(): void;
}

/** bytes that may wait while nobody reads, before the sender is held back */
const highWaterBytes = 512 * 1024;

type State = { readonly kind: "frame" } | { readonly kind: "raw"; remaining: number };

export class ControlReader {
  readonly #queue = new ByteQueue();
  readonly #flow: Flow;
  #state: State = { kind: "frame" };
  #paused = false;
  #ended = false;
  #wake: (() => void) | undefined;

  constructor(flow: Flow) {
    this.#flow = flow;
  }

  /** Takes what the connection delivered. */
  push(chunk: Uint8Array): void {
    this.#queue.push(chunk);
    if (this.#wake !== undefined) this.#wakeUp();
    else if (!this.#paused && this.#queue.length >= highWaterBytes) {
      this.#paused = true;
      this.#flow.pause();
    }
  }

  /** Says that nothing more will come, for whatever reason. */
  end(): void {
    this.#ended = true;
    this.#wakeUp();
  }

  /**
   * The next message; what is left of the raw block before it is thrown away. Undefined when the stream ended between
   * messages. Throws {@link ControlStreamError} or `FrameLimitError`, after which the connection is of no more use.
   */
  async frame(): Promise<WireMessage | undefined> {
    while ((await this.raw()) !== undefined);
    if (!(await this.#has(frameHeaderBytes))) {
      if (this.#queue.length === 0) return undefined;
      throw new ControlStreamError("cut", "the connection ended inside a frame header");
    }
    const length = this.#queue.peekUint32BE(0);
    if (length === 0 || length > maxFrameBytes) throw new FrameLimitError(length, maxFrameBytes);
    if (!(await this.#has(frameHeaderBytes + length))) {
      throw new ControlStreamError("cut", `the connection ended inside a frame of ${length} bytes`);
    }
    this.#queue.take(frameHeaderBytes);
    return decodeMessage(this.#queue.take(length));
  }

  /** Announces that `bytes` raw bytes follow the frame just read. */
  expectRaw(bytes: number): void {
    if (this.#state.kind === "raw") throw new Error("a raw block is being read already");
    if (bytes > 0) this.#state = { kind: "raw", remaining: bytes };
  }

  /** raw bytes announced and not read yet */
  get rawRemaining(): number {
    return this.#state.kind === "raw" ? this.#state.remaining : 0;
  }

  /** The next piece of the raw block, or undefined at its end. Throws {@link ControlStreamError} when the stream ends first. */
  async raw(): Promise<Uint8Array | undefined> {
    const state = this.#state;
    if (state.kind === "frame") return undefined;
    if (!(await this.#has(1))) {
      throw new ControlStreamError(
        "cut",
        `the connection ended ${state.remaining} bytes before the end of a raw block`,
      );
    }
    const piece = this.#queue.takeUpTo(state.remaining);
    state.remaining -= piece.length;
    if (state.remaining === 0) this.#state = { kind: "frame" };
    return piece;
  }

  /** Waits until `bytes` are there. False when the stream ends with fewer. */
  async #has(bytes: number): Promise<boolean> {
    while (this.#queue.length < bytes) {
      if (this.#ended) return false;
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
        if (this.#paused) {
          this.#paused = false;
          this.#flow.resume();
        }
      });
    }
    return true;
  }

  #wakeUp(): void {
    const wake = this.#wake;
    this.#wake = undefined;
    wake?.();
  }
}

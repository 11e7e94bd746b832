/**
 * Length-prefix framing: `u32 big-endian length`, then that many payload bytes. Used by control (JSON), console (BSON)
 * and forward (JSON). The limit is given by the contract and checked before a payload is buffered.
 */
import { ByteQueue } from "./byte-queue.ts";

/** A frame whose length its contract does not allow. The stream cannot be trusted afterwards. */
export class FrameLimitError extends Error {
  override readonly name = "FrameLimitError";
  constructor(
    /** bytes that the header announced, or that the writer was given */
    readonly length: number,
    /** largest payload that the contract allows, in bytes */
    readonly limit: number,
  ) {
    super(
      length === 0 ? "a frame of length 0 is not allowed" : `a frame of ${length} bytes exceeds the limit of ${limit}`,
    );
  }
}

export const frameHeaderBytes = 4;

/** One contiguous buffer: header and payload. Throws {@link FrameLimitError} outside 1..limit. */
export function encodeFrame(payload: Uint8Array, limit: number): Buffer {
  if (payload.length === 0 || payload.length > limit) throw new FrameLimitError(payload.length, limit);
  const frame = Buffer.allocUnsafe(frameHeaderBytes + payload.length);
  frame.writeUInt32BE(payload.length, 0);
  frame.set(payload, frameHeaderBytes);
  return frame;
}

/**
 * Cuts a stream into frames, however it was chunked. `push` bytes, then call `next` until it answers undefined.
 * A bad length throws {@link FrameLimitError} as soon as the header is known, before the payload is waited for.
 */
export class FrameDecoder {
  readonly #queue = new ByteQueue();

  constructor(
    /** largest payload allowed, in bytes */
    readonly limit: number,
  ) {}

  push(chunk: Uint8Array): void {
    this.#queue.push(chunk);
  }

  /** The next whole payload, or undefined until more arrives. */
  next(): Uint8Array | undefined {
    if (this.#queue.length < frameHeaderBytes) return undefined;
    const length = this.#queue.peekUint32BE(0);
    if (length === 0 || length > this.limit) throw new FrameLimitError(length, this.limit);
    if (this.#queue.length < frameHeaderBytes + length) return undefined;
    this.#queue.take(frameHeaderBytes);
    return this.#queue.take(length);
  }

  /** Whether the stream may end here: nothing of a further frame has arrived. */
  get atBoundary(): boolean {
    return this.#queue.length === 0;
  }
}

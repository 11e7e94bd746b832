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

/** payloads from here on are put together in one buffer while they arrive, instead of being kept twice at the end */
const bulkBytes = 1024 * 1024;

/**
 * Cuts a stream into frames, however it was chunked. `push` bytes, then call `next` until it answers undefined.
 * A bad length throws {@link FrameLimitError} as soon as the header is known, before the payload is waited for.
 */
export class FrameDecoder {
  readonly #queue = new ByteQueue();
  /** a large payload that is arriving; its memory is untouched, and so not taken, beyond `filled` */
  #bulk: { readonly payload: Uint8Array; filled: number } | undefined;

  constructor(
    /** largest payload allowed, in bytes */
    readonly limit: number,
  ) {}

  push(chunk: Uint8Array): void {
    this.#queue.push(chunk);
  }

  /** The next whole payload, or undefined until more arrives. */
  next(): Uint8Array | undefined {
    if (this.#bulk !== undefined) return this.#fillBulk(this.#bulk);
    if (this.#queue.length < frameHeaderBytes) return undefined;
    const length = this.#queue.peekUint32BE(0);
    if (length === 0 || length > this.limit) throw new FrameLimitError(length, this.limit);
    if (this.#queue.length < frameHeaderBytes + length) {
      if (length < bulkBytes) return undefined;
      this.#queue.take(frameHeaderBytes);
      this.#bulk = { payload: Buffer.allocUnsafeSlow(length), filled: 0 };
      return this.#fillBulk(this.#bulk);
    }
    this.#queue.take(frameHeaderBytes);
    return this.#queue.take(length);
  }

  #fillBulk(bulk: { readonly payload: Uint8Array; filled: number }): Uint8Array | undefined {
    while (this.#queue.length > 0 && bulk.filled < bulk.payload.length) {
      const piece = this.#queue.takeUpTo(bulk.payload.length - bulk.filled);
      bulk.payload.set(piece, bulk.filled);
      bulk.filled += piece.length;
    }
    if (bulk.filled < bulk.payload.length) return undefined;
    this.#bulk = undefined;
    return bulk.payload;
  }

  /** Whether the stream may end here: nothing of a further frame has arrived. */
  get atBoundary(): boolean {
    return this.#queue.length === 0 && this.#bulk === undefined;
  }
}

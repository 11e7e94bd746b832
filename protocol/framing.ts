/**
 * Length-prefix framing: `u32 big-endian length`, then that many payload bytes. Used by control (JSON), console (BSON)
 * and forward (JSON). The limit is given by the contract and checked before a payload is buffered.
 */

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

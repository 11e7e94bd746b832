/**
 * The shell protocol's frames (vsock 1027, "Framing" and "Frame types"): `u8 type, u32 big-endian length, payload`.
 * Everything here is pure: bytes in, frames out. Extension frame 22 `offset` is ours and is only sent to clients that asked.
 */
import { ByteQueue } from "../byte-queue.ts";

export const headerBytes = 5;
/** largest payload of any frame, in bytes */
export const maxPayloadBytes = 1 << 20;

export const frameType = {
  start: 1,
  stdin: 2,
  stdinEof: 3,
  resize: 4,
  signal: 5,
  stdout: 16,
  stderr: 17,
  exit: 18,
  error: 19,
  started: 20,
  window: 21,
  offset: 22,
} as const;

/** A decoded frame of either direction. */
export type ShellFrame =
  | { readonly type: "start"; readonly payload: Uint8Array }
  | { readonly type: "stdin"; readonly bytes: Uint8Array }
  | { readonly type: "stdinEof" }
  /** window size in character cells, each u16 */
  | { readonly type: "resize"; readonly rows: number; readonly cols: number }
  /** Linux signal number, u8 */
  | { readonly type: "signal"; readonly number: number }
  | { readonly type: "stdout"; readonly bytes: Uint8Array }
  | { readonly type: "stderr"; readonly bytes: Uint8Array }
  /** exit status, i32 */
  | { readonly type: "exit"; readonly code: number }
  | { readonly type: "error"; readonly message: string }
  | { readonly type: "started" }
  /** further stdin bytes the client may send, u32 */
  | { readonly type: "window"; readonly bytes: number }
  /** position of the next output byte in a named session, u64 */
  | { readonly type: "offset"; readonly position: bigint };

/** A frame that breaks the protocol: over the limit, of an unknown type, or with a payload of the wrong size. */
export class ShellFrameError extends Error {
  override readonly name = "ShellFrameError";
}

/** Writes a frame header into `target` at `offset`; the payload follows it there. */
export function writeHeader(target: Uint8Array, offset: number, type: number, payloadBytes: number): void {
  target[offset] = type;
  target[offset + 1] = payloadBytes >>> 24;
  target[offset + 2] = payloadBytes >>> 16;
  target[offset + 3] = payloadBytes >>> 8;
  target[offset + 4] = payloadBytes;
}

/** One contiguous frame. Throws {@link ShellFrameError} when the payload is over 1 MiB. */
export function encodeRawFrame(type: number, payload: Uint8Array): Uint8Array {
  if (payload.length > maxPayloadBytes)
    throw new ShellFrameError(`a payload of ${payload.length} bytes exceeds the limit of ${maxPayloadBytes}`);
  const frame = new Uint8Array(headerBytes + payload.length);
  writeHeader(frame, 0, type, payload.length);
  frame.set(payload, headerBytes);
  return frame;
}

/** Encodes any frame. Throws {@link ShellFrameError} over the limit and a RangeError for a number outside its field. */
export function encodeFrame(frame: ShellFrame): Uint8Array {
  switch (frame.type) {
    case "start":
      return encodeRawFrame(frameType.start, frame.payload);
    case "stdin":
    case "stdout":
    case "stderr":
      return encodeRawFrame(frameType[frame.type], frame.bytes);
    case "stdinEof":
    case "started":
      return encodeRawFrame(frameType[frame.type], new Uint8Array(0));
    case "resize":
      return encodeRawFrame(
        frameType.resize,
        numbers(4, (view) => {
          view.setUint16(0, inRange("rows", frame.rows, 0, 0xffff));
          view.setUint16(2, inRange("cols", frame.cols, 0, 0xffff));
        }),
      );
    case "signal":
      return encodeRawFrame(frameType.signal, Uint8Array.of(inRange("signal", frame.number, 0, 0xff)));
    case "exit":
      return encodeRawFrame(
        frameType.exit,
        numbers(4, (view) => {
          view.setInt32(0, inRange("exit code", frame.code, -0x80000000, 0x7fffffff));
        }),
      );
    case "error":
      return encodeRawFrame(frameType.error, new TextEncoder().encode(frame.message));
    case "window":
      return encodeRawFrame(
        frameType.window,
        numbers(4, (view) => {
          view.setUint32(0, inRange("window", frame.bytes, 0, 0xffffffff));
        }),
      );
    case "offset":
      return encodeRawFrame(
        frameType.offset,
        numbers(8, (view) => {
          view.setBigUint64(0, frame.position);
        }),
      );
  }
}

function numbers(bytes: number, fill: (view: DataView) => void): Uint8Array {
  const payload = new Uint8Array(bytes);
  fill(new DataView(payload.buffer));
  return payload;
}

function inRange(field: string, value: number, low: number, high: number): number {
  if (!Number.isInteger(value) || value < low || value > high)
    throw new RangeError(`${field} ${value} is outside ${low}..${high}`);
  return value;
}

/** A frame as it stood on the wire, its payload not interpreted yet. */
export interface RawFrame {
  readonly type: number;
  readonly payload: Uint8Array;
}

/**
 * Cuts a stream into raw frames, however it was chunked. Holds at most one frame and what arrived behind it.
 * Frames of the `streamed` types come out in the pieces that they arrive in, each like a frame of its own: for output, which
 * is a stream of bytes anyway, that saves a copy.
 */
export class RawFrameDecoder {
  readonly #queue = new ByteQueue();
  readonly #streamed: ReadonlySet<number>;
  /** the streamed frame under way */
  #type = 0;
  #missingBytes = 0;

  constructor({ streamed = [] }: { streamed?: readonly number[] } = {}) {
    this.#streamed = new Set(streamed);
  }

  push(chunk: Uint8Array): void {
    this.#queue.push(chunk);
  }

  /** Bytes that wait for the rest of their frame. */
  get pendingBytes(): number {
    return this.#queue.length;
  }

  /** The next whole frame, or undefined. Throws {@link ShellFrameError} as soon as a header announces over 1 MiB. */
  next(): RawFrame | undefined {
    if (this.#missingBytes > 0) return this.#nextPiece();
    if (this.#queue.length < headerBytes) return undefined;
    const length = this.#queue.peekUint32BE(1);
    if (length > maxPayloadBytes)
      throw new ShellFrameError(`a frame of ${length} bytes exceeds the limit of ${maxPayloadBytes}`);
    const type = this.#queue.peek(0);
    if (length > 0 && this.#streamed.has(type)) {
      this.#queue.take(headerBytes);
      this.#type = type;
      this.#missingBytes = length;
      return this.#nextPiece();
    }
    if (this.#queue.length < headerBytes + length) return undefined;
    this.#queue.take(headerBytes);
    return { type, payload: this.#queue.take(length) };
  }

  #nextPiece(): RawFrame | undefined {
    if (this.#queue.length === 0) return undefined;
    const payload = this.#queue.takeUpTo(this.#missingBytes);
    this.#missingBytes -= payload.length;
    return { type: this.#type, payload };
  }
}

/**
 * Interprets a frame strictly, as a client must ("Client strictness").
 * Throws {@link ShellFrameError} for an unknown type and for resize, signal, exit, window or offset of a wrong size.
 */
export function decodeFrame({ type, payload }: RawFrame): ShellFrame {
  const view = new DataView(payload.buffer, payload.byteOffset, payload.byteLength);
  const sized = (name: string, bytes: number): void => {
    if (payload.length !== bytes)
      throw new ShellFrameError(`${name} has a payload of ${payload.length} bytes instead of ${bytes}`);
  };
  switch (type) {
    case frameType.start:
      return { type: "start", payload };
    case frameType.stdin:
      return { type: "stdin", bytes: payload };
    case frameType.stdinEof:
      return { type: "stdinEof" };
    case frameType.resize:
      sized("resize", 4);
      return { type: "resize", rows: view.getUint16(0), cols: view.getUint16(2) };
    case frameType.signal:
      sized("signal", 1);
      return { type: "signal", number: view.getUint8(0) };
    case frameType.stdout:
      return { type: "stdout", bytes: payload };
    case frameType.stderr:
      return { type: "stderr", bytes: payload };
    case frameType.exit:
      sized("exit", 4);
      return { type: "exit", code: view.getInt32(0) };
    case frameType.error:
      return { type: "error", message: new TextDecoder().decode(payload) };
    case frameType.started:
      return { type: "started" };
    case frameType.window:
      sized("window", 4);
      return { type: "window", bytes: view.getUint32(0) };
    case frameType.offset:
      sized("offset", 8);
      return { type: "offset", position: view.getBigUint64(0) };
    default:
      throw new ShellFrameError(`unknown frame type ${type}`);
  }
}

export type ClientFrame = Extract<ShellFrame, { type: "start" | "stdin" | "stdinEof" | "resize" | "signal" }>;

/**
 * Interprets a client's frame as an agent must ("Agent leniency"): unknown types, agent frames, and resize and signal of a
 * wrong size are `ignored`, with the reason for the log.
 */
export function decodeClientFrame(raw: RawFrame): ClientFrame | { readonly type: "ignored"; readonly reason: string } {
  if (raw.type === 0 || raw.type > frameType.signal)
    return { type: "ignored", reason: `unknown frame type ${raw.type}` };
  try {
    return decodeFrame(raw) as ClientFrame;
  } catch (error) {
    if (error instanceof ShellFrameError) return { type: "ignored", reason: error.message };
    throw error;
  }
}

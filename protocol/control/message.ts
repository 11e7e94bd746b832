/** One control message: a JSON object in a frame, UTF-8, below 4 MiB (companion §2). */
import { encodeFrame } from "../framing.ts";
import { maxFrameBytes, protocolVersion } from "./limits.ts";

/** A message as it came off the wire, nothing of it checked but that it is an object. */
export type WireMessage = { readonly [field: string]: unknown };

/** The stream cannot be trusted any more: a bad length, bytes that are no JSON object, or an end in mid-frame. */
export class ControlStreamError extends Error {
  override readonly name = "ControlStreamError";
  constructor(
    /** `malformed`: bytes that break the protocol; `cut`: the connection ended too early */
    readonly kind: "malformed" | "cut",
    message: string,
    options?: { cause?: unknown },
  ) {
    super(message, options);
  }
}

const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** Throws {@link ControlStreamError} unless the payload is one JSON object in valid UTF-8. */
export function decodeMessage(payload: Uint8Array): WireMessage {
  let value: unknown;
  try {
    value = JSON.parse(decoder.decode(payload));
  } catch (cause) {
    throw new ControlStreamError("malformed", "a frame that is not JSON in UTF-8", { cause });
  }
  if (typeof value !== "object" || value === null || Array.isArray(value))
    throw new ControlStreamError("malformed", "a frame whose JSON is not an object");
  return value as WireMessage;
}

/** A whole frame, header and JSON in one buffer. Throws `FrameLimitError` when the JSON has 4 MiB or more. */
export function encodeMessage(fields: { readonly t: string; readonly [field: string]: unknown }): Buffer {
  return encodeFrame(Buffer.from(JSON.stringify({ v: protocolVersion, ...fields }), "utf8"), maxFrameBytes);
}

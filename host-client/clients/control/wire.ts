/** Between messages as they are on the wire and what the connection works with. */
import { ControlStreamError, encodeMessage, type WireMessage } from "#protocol/control/message.ts";
import { type HelloReply, helloReply } from "#protocol/control/replies.ts";
import { ControlError } from "./error.ts";

/** Throws {@link ControlError} `too_large` when the request does not fit into a frame. */
export function encodeRequest(what: string, fields: { readonly t: string; readonly [field: string]: unknown }): Buffer {
  try {
    return encodeMessage(fields);
  } catch (cause) {
    throw new ControlError("too_large", `${what}: ${cause instanceof Error ? cause.message : String(cause)}`, {
      cause,
    });
  }
}

/** Throws {@link ControlError} for anything but the hello of a daemon of version 1. */
export function parseHello(message: WireMessage | undefined): HelloReply {
  if (message === undefined) throw new ControlError("closed", "hello: the guest closed the connection");
  if (message.t === "err") throw new ControlError("version", `hello: the guest refused: ${String(message.msg)}`);
  const parsed = helloReply.safeParse(message);
  if (!parsed.success)
    throw new ControlError("protocol", "hello: the answer is not that of a control daemon of version 1");
  return parsed.data;
}

/** How many raw bytes follow a reply (companion §2). Throws when the guest announces what cannot be. */
export function rawBytes(message: WireMessage): number {
  if (message.t === "file_data") return announced(message.size);
  if (message.t === "clipboard_get" && message.has_image === true) return announced(message.image_size);
  return 0;
}

function announced(size: unknown): number {
  if (typeof size !== "number" || !Number.isSafeInteger(size) || size < 0) {
    throw new ControlError("protocol", `the guest announced a raw block of ${JSON.stringify(size)} bytes`);
  }
  return size;
}

/** What ended a connection or a request, as the one error of this folder. */
export function asControlError(what: string, error: unknown): ControlError {
  if (error instanceof ControlError) return error;
  const message = error instanceof Error ? error.message : String(error);
  const code = error instanceof ControlStreamError && error.kind === "cut" ? "closed" : "protocol";
  return new ControlError(code, `${what}: ${message}`, { cause: error });
}

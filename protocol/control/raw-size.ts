import type { WireMessage } from "./message.ts";

/**
 * How many raw bytes follow a frame from the host, decided by its type and size alone, before the request is looked at
 * any closer. `inadmissible`: it is not known how many follow, so the stream must be given up.
 */
export type RawPlan =
  | { readonly kind: "bytes"; readonly bytes: number }
  | { readonly kind: "inadmissible"; readonly code: "bad_request" | "too_large"; readonly limit: number };

export interface RawLimits {
  /** bytes of one update */
  readonly update: number;
  /** bytes of one `file_put` */
  readonly filePut: number;
  /** bytes of one clipboard image */
  readonly clipboardImage: number;
}

export function planRaw(message: WireMessage, limits: RawLimits): RawPlan {
  switch (message.t) {
    case "update":
      return plan(message.size, limits.update);
    case "file_put":
      return plan(message.size, limits.filePut);
    case "clipboard_set":
      return message.type === "image" ? plan(message.size, limits.clipboardImage) : { kind: "bytes", bytes: 0 };
    default:
      return { kind: "bytes", bytes: 0 };
  }
}

function plan(size: unknown, limit: number): RawPlan {
  if (typeof size !== "number" || !Number.isSafeInteger(size) || size < 0)
    return { kind: "inadmissible", code: "bad_request", limit };
  return size <= limit ? { kind: "bytes", bytes: size } : { kind: "inadmissible", code: "too_large", limit };
}

import { type ErrorCode, errorCodes } from "#protocol/control/error-code.ts";

/**
 * What the daemon may answer, and what goes wrong on this side:
 * - `closed`: the connection ended before the answer
 * - `timeout`: no answer in time
 * - `protocol`: what answers is no control daemon, or broke its protocol
 * - `changed`: the file changed while it was read
 * - `local`: the host's own side of a transfer failed; see the cause
 * - `refused`: a stock daemon's `err`, which carries no code
 */
export type ControlErrorCode = ErrorCode | "closed" | "timeout" | "protocol" | "changed" | "local" | "refused";

/** The one error of this folder. The message names the request and its path. */
export class ControlError extends Error {
  override readonly name = "ControlError";
  constructor(
    readonly code: ControlErrorCode,
    message: string,
    options?: { cause?: unknown },
  ) {
    super(message, options);
  }
}

/** The code of an `err` reply: the daemon's where it is one that we know. */
export function errorCodeOf(code: string | undefined): ControlErrorCode {
  return errorCodes.find((known) => known === code) ?? "refused";
}

import type { EncodeError } from "#protocol/bridge/encode.ts";

/**
 * - `disconnected`: the connection to the core was lost, or there is none; the call may or may not have been carried out
 * - `not_ready`: the core could not be reached, or did not send `ready` in time
 * - `failed`: the core answered the call with an error; `coreCode` is the one it gave
 * - `unencodable`, `too_large`: a value that JSON cannot carry, a message over 16 MiB; nothing was sent
 * - `timeout`, `aborted`: the caller's limit or signal; a result that comes later is dropped
 * - `closed`: the session was closed by its owner
 */
export type BridgeErrorCode =
  | "disconnected"
  | "not_ready"
  | "failed"
  | "unencodable"
  | "too_large"
  | "timeout"
  | "aborted"
  | "closed";

/** What went wrong between the host end and an app's core. The message names the channel where there is one. */
export class BridgeError extends Error {
  override readonly name = "BridgeError";
  /** code of an error that the core answered with */
  readonly coreCode: string | undefined;

  constructor(
    readonly code: BridgeErrorCode,
    message: string,
    { cause, coreCode }: { cause?: unknown; coreCode?: string | undefined } = {},
  ) {
    super(message, cause === undefined ? undefined : { cause });
    this.coreCode = coreCode;
  }
}

/** Refuses one request of the core. The code goes to the core. */
export class OpError extends Error {
  override readonly name = "OpError";
  constructor(
    readonly code: string,
    message: string,
  ) {
    super(message);
  }
}

/** `subject` is the channel of the call that could not be encoded. */
export function asBridgeError(subject: string, error: EncodeError): BridgeError {
  return new BridgeError(error.code, `${subject}: ${error.message}`, { cause: error });
}

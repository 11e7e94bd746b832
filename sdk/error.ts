/**
 * A request that the platform did not carry out, with its reason. `code` is the platform's, e.g. `denied`,
 * `unknown_op`; `disconnected` when the host went away before it answered.
 */
export class PlatformError extends Error {
  override readonly name = "PlatformError";
  constructor(
    message: string,
    readonly code: string | undefined,
  ) {
    super(message);
  }
}

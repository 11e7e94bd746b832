/**
 * - `refused`: the agent answered `error`: the command cannot run, or the start frame was wrong
 * - `protocol`: what the agent sent cannot be decoded
 * - `closed`: the connection ended without an exit status
 * - `unresponsive`: the guest answers nobody any more
 */
export type ShellErrorCode = "refused" | "protocol" | "closed" | "unresponsive";

/** A session that ended without an exit status. The message is the one that the contract gives ("Client results"). */
export class ShellError extends Error {
  override readonly name = "ShellError";

  constructor(
    readonly code: ShellErrorCode,
    message: string,
    options?: ErrorOptions,
  ) {
    super(message, options);
  }
}

export const closedMessage = "connection to the VM closed (VM stopped or restarted?)";
export const closedEarlyMessage =
  "the connection closed before the command started (the guest's agent may be older than this client)";

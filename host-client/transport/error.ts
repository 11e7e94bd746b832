/**
 * - `unreachable`: there is no guest at that address (no such socket file, no such CID, permission denied)
 * - `refused`: the guest is there, and nothing listens on that port
 * - `timeout`: no answer within the deadline
 * - `aborted`: the caller's signal fired
 * - `protocol`: what answers at that address does not speak the transport's handshake
 * - `unsupported`: this runtime cannot open such a socket (AF_VSOCK needs Bun)
 * - `bad_target`: the text does not name a target
 */
export type TransportErrorCode =
  | "unreachable"
  | "refused"
  | "timeout"
  | "aborted"
  | "protocol"
  | "unsupported"
  | "bad_target";

interface TransportErrorDetails {
  code: TransportErrorCode;
  /** the target as the user wrote it, or would write it */
  target: string;
  /** vsock port, when a port was dialled */
  port?: number;
  cause?: unknown;
}

/** The one error of this folder. The message names the target and the port. */
export class TransportError extends Error {
  override readonly name = "TransportError";
  readonly code: TransportErrorCode;
  readonly target: string;
  readonly port: number | undefined;

  constructor(message: string, { code, target, port, cause }: TransportErrorDetails) {
    super(message, cause === undefined ? undefined : { cause });
    this.code = code;
    this.target = target;
    this.port = port;
  }
}

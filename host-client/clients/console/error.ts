import { ErrorCode, type ErrorName } from "#protocol/console/errors.ts";

/** The server answered with an error: the channel goes on. Branch on `code`, show the message. */
export class ConsoleRefusedError extends Error {
  override readonly name = "ConsoleRefusedError";
  /** the code's name in the contract; undefined for a code that it does not have */
  readonly kind: ErrorName | undefined;

  constructor(
    /** method that was refused */
    readonly method: string,
    /** number of the contract, e.g. -32000 for a command that was killed at its timeout */
    readonly code: number,
    message: string,
  ) {
    super(message);
    this.kind = (Object.keys(ErrorCode) as ErrorName[]).find((name) => ErrorCode[name] === code);
  }
}

/** The channel cannot be used any more: the server ended, the connection was lost, or what came is not the protocol. */
export class ConsoleBrokenError extends Error {
  override readonly name = "ConsoleBrokenError";
}

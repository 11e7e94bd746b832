/** The error codes of the console (given/console.md, "Errors"). A code is a wire contract: gaps stay gaps. */
export const ErrorCode = {
  timedOut: -32000,
  notExecutable: -32001,
  bootFailed: -32002,
  notFound: -32005,
  isDirectory: -32006,
  ioFailed: -32007,
  unsupportedMount: -32008,
  mountFailed: -32009,
  unsupportedNetwork: -32010,
  unsupportedImage: -32011,
  unknownImage: -32012,
  unsupportedMachine: -32013,
  invalidRequest: -32600,
  methodNotFound: -32601,
  invalidParams: -32602,
  internal: -32603,
} as const;

export type ErrorName = keyof typeof ErrorCode;

/** A call that is refused: what a server throws on the way to its answer. */
export class ConsoleError extends Error {
  override readonly name = "ConsoleError";
  readonly code: number;

  constructor(
    readonly kind: ErrorName,
    message: string,
    options?: ErrorOptions,
  ) {
    super(message, options);
    this.code = ErrorCode[kind];
  }
}

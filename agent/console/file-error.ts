/** Turns what a filesystem said into the contract's codes, once. */
import { ConsoleError } from "#protocol/console/errors.ts";

/** The reason in words, e.g. `no such file or directory`. */
export function errorText(error: unknown): string {
  const message = error instanceof Error ? error.message : String(error);
  // Node writes `ENOENT: no such file or directory, open '/x'`.
  return /^E[A-Z0-9]+: (.*?), \w/.exec(message)?.[1] ?? message;
}

/** @param path as the client sent it */
export function fileError(path: string, error: unknown): ConsoleError {
  if (error instanceof ConsoleError) return error;
  const code = error instanceof Error && "code" in error ? error.code : undefined;
  const kind = code === "ENOENT" ? "notFound" : code === "EISDIR" ? "isDirectory" : "ioFailed";
  return new ConsoleError(kind, `${path}: ${kind === "isDirectory" ? "is a directory" : errorText(error)}`, {
    cause: error,
  });
}

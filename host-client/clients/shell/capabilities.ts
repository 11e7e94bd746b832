import { type ShellStart, shellCaps } from "#protocol/shell/start.ts";
import { ShellError } from "./error.ts";

type ExtensionKey = keyof typeof shellCaps;
const extensionKeys = Object.keys(shellCaps) as ExtensionKey[];

/** The capabilities that a start asks of the agent; none for one that keeps to the contract's own keys. */
export function wantedCaps(start: ShellStart): string[] {
  return extensionKeys.filter((key) => start[key] !== undefined).map((key) => shellCaps[key]);
}

/**
 * Throws {@link ShellError} `refused` when the agent lacks one of them: it would ignore the key, and run the command as
 * another user, elsewhere, or without its variables.
 */
export function requireCaps({
  wanted,
  offered,
  guest,
}: {
  wanted: readonly string[];
  offered: readonly string[];
  /** name of the guest, for the error */
  guest: string;
}): void {
  const lacking = wanted.filter((cap) => !offered.includes(cap));
  if (lacking.length === 0) return;
  throw new ShellError(
    "refused",
    `the agent of ${guest} does not offer ${lacking.join(", ")}; its image is older than this vmapp, or another agent's`,
  );
}

import { type ShellStart, shellCaps } from "#protocol/shell/start.ts";
import { ShellError } from "./error.ts";

type ExtensionKey = keyof typeof shellCaps;
const extensionKeys = Object.keys(shellCaps) as ExtensionKey[];

/**
 * Throws {@link ShellError} `refused` when a start has extension keys that the agent does not offer: it would ignore them, and
 * run the command as another user, elsewhere, or without its variables. The guest is asked only when there are such keys.
 */
export async function requireCaps({
  start,
  guest,
  askCaps,
}: {
  start: ShellStart;
  /** name of the guest, for the error */
  guest: string;
  /** the capabilities in the hello of the guest's control service */
  askCaps: () => Promise<readonly string[]>;
}): Promise<void> {
  const wanted = extensionKeys.filter((key) => start[key] !== undefined).map((key) => shellCaps[key]);
  if (wanted.length === 0) return;
  let offered: readonly string[];
  try {
    offered = await askCaps();
  } catch (cause) {
    const message = `cannot ask ${guest} whether it offers ${wanted.join(", ")}: ${(cause as Error).message}`;
    throw new ShellError("refused", message, { cause });
  }
  const lacking = wanted.filter((cap) => !offered.includes(cap));
  if (lacking.length > 0) throw new ShellError("refused", `the agent of ${guest} does not offer ${lacking.join(", ")}`);
}

import { constants } from "node:os";
import type { Readable } from "node:stream";
import type { ShellStart } from "#protocol/shell/start.ts";
import type { GuestLink } from "../guest-link.ts";
import { OutputClosed, outputClosedStatus, standardError, standardOutput, writeOut } from "./output.ts";
import { onStopSignal } from "./stop-signals.ts";

/**
 * Runs a command in the guest on pipes: its output becomes ours, and ours is never ahead of what our reader takes.
 * SIGINT, SIGTERM and SIGHUP go to the command. Resolves with the exit status. Throws what the session throws.
 */
export async function runCommand(guest: GuestLink, start: ShellStart, { stdin }: { stdin: boolean }): Promise<number> {
  const session = await guest.shell(start);
  const undo = onStopSignal((signal) => session.signal(constants.signals[signal]));
  session.stdin.on("error", () => {});
  if (stdin) process.stdin.pipe(session.stdin);
  else session.stdin.end();
  // Disconnecting makes the exit fail too, so the output's own failure has to be remembered.
  let outputFailure: unknown;
  const copy = async (from: Readable, to: () => NodeJS.WriteStream, name: string): Promise<void> => {
    try {
      for await (const chunk of from as AsyncIterable<Uint8Array>) await writeOut(to(), chunk);
    } catch (error) {
      outputFailure ??=
        error instanceof OutputClosed ? error : new Error(`cannot write to ${name}: ${(error as Error).message}`);
      session.disconnect();
    }
  };
  try {
    // A session that fails has output to show, too.
    await Promise.all([
      copy(session.stdout, standardOutput, "standard output"),
      copy(session.stderr, standardError, "standard error"),
    ]);
    const { code } = await session.exit;
    if (outputFailure !== undefined) throw outputFailure;
    return code;
  } catch (error) {
    if (outputFailure instanceof OutputClosed) return outputClosedStatus;
    throw outputFailure ?? guest.explain(error);
  } finally {
    await session.closed;
    undo();
    if (stdin) process.stdin.unpipe(session.stdin).destroy();
  }
}

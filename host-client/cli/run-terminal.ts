import { match } from "ts-pattern";
import type { ShellStart } from "#protocol/shell/start.ts";
import { attachTerminal } from "../clients/shell/terminal.ts";
import { windowSize } from "../clients/shell/window-size.ts";
import type { GuestLink } from "../guest-link.ts";
import { failureStatus } from "./failure.ts";
import { note, OutputClosed, standardOutput } from "./output.ts";
import { signalStatus } from "./stop-signals.ts";

/** Whether the user sits at a terminal, for keys and for the screen. */
export function isAtTerminal(): boolean {
  return process.stdin.isTTY === true && process.stdout.isTTY === true;
}

/**
 * Runs a command or a login shell on a pty that is joined to the user's terminal. Without `stdin` nothing can be typed.
 * Resolves with our exit status. Throws what the session throws.
 */
export async function runOnTerminal(guest: GuestLink, start: ShellStart, { stdin = true } = {}): Promise<number> {
  const size = windowSize(standardOutput());
  const { TERM: term } = process.env;
  const session = await guest.shell({ ...start, tty: true, ...size, ...(term && { term }) });
  try {
    const end = await attachTerminal({
      session,
      input: stdin ? process.stdin : undefined,
      output: standardOutput(),
      size,
    });
    return match(end)
      .with({ kind: "exit" }, ({ code }) => code)
      .with({ kind: "signal" }, ({ signal }) => signalStatus(signal))
      .with({ kind: "disconnected" }, () => {
        note(start.session === undefined ? "disconnected" : `disconnected; the session ${start.session} goes on`);
        return failureStatus;
      })
      .exhaustive();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EPIPE") throw new OutputClosed();
    throw guest.explain(error);
  }
}

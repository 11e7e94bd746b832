import { join } from "node:path";
import { cliCommand } from "#test/host/cli.ts";

const root = join(import.meta.dir, "../..");

/** The CLI from its sources, for tests that need no build. */
export const sourceCli: readonly [string, ...string[]] = cliCommand([]);

/** The CLI as it is shipped; `make build` makes it. */
export const builtCli: readonly [string, ...string[]] = [join(root, "dist/vmapp")];

/** A shell in the guest whose prompt is known, and which reads no start-up file. */
export const promptShell: readonly string[] = ["env", "PS1=guest> ", "bash", "--norc", "--noprofile", "-i"];

/** To be typed at a prompt: a command that says when it can be interrupted or stopped. */
export const sleepingCommand = "sh -c 'echo asleep; exec sleep 100'";
/** what that shows, which is not the line that was typed */
export const asleep = /^asleep$/m;

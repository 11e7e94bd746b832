import { type ChildProcess, type StdioOptions, spawn } from "node:child_process";
import { programs, requireProgram } from "./find-program.ts";

/** Runs the program unless the owner has died before the death signal was armed. */
const launcher = '[ "$PPID" = "$0" ] || exit 1; exec "$@"';

/**
 * Spawns a program that the kernel kills when this process ends, however it ends. It gets a session of its own, so that
 * a terminal's ^C, which is meant for the owner, does not reach it.
 */
export function spawnTied(argv: readonly string[], stdio: StdioOptions): ChildProcess {
  const setpriv = requireProgram(programs.setpriv);
  const tied = ["--pdeathsig", "KILL", "--", "/bin/sh", "-c", launcher, String(process.pid), ...argv];
  return spawn(setpriv, tied, { stdio, detached: true });
}

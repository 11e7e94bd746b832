/** How a session ends ("Exit and teardown"): the drain after an exit, and the hang-up after a disconnect. */
import type { ExitStatus } from "#sys/spawn.ts";
import type { Command } from "./command.ts";

/** how long output may stay open after the command exited while nothing waits for the client */
const drainMs = 200;
/** more than a terminal can hold of its output */
const terminalBytes = 128 * 1024;
/** between SIGHUP and SIGKILL */
const hangupGraceMs = 2_000;
const pollMs = 20;

const SIGHUP = 1;
const SIGKILL = 9;

/** The `exit` frame's code: exit status, 128 + n for a signal, 255 when nobody knows. */
export function exitCode({ code, signal }: ExitStatus): number {
  if (signal !== null) return 128 + signal;
  return code ?? 255;
}

/**
 * Waits for the output of a command that has exited. Background children may hold it open, so it is cut after 200 ms in
 * which nothing was `waiting` for the client; a slow client is no reason to cut what the command itself wrote. Ends early
 * when there is nobody to drain for any more, or nothing left of the command's own output: `over`.
 */
export async function drain({
  outputDone,
  waiting,
  over,
}: {
  outputDone: Promise<unknown>;
  waiting: () => boolean;
  over: () => boolean;
}): Promise<void> {
  let done = false;
  void outputDone.then(() => {
    done = true;
  });
  let idleMs = 0;
  let last = performance.now();
  while (!done && idleMs < drainMs && !over()) {
    await Promise.race([outputDone, sleep(pollMs)]);
    const now = performance.now();
    if (!waiting()) idleMs += now - last;
    last = now;
  }
}

/**
 * Tells, from the exit on, when a background child floods the output: more was read than the command can have left
 * behind, and the drain's time is over.
 */
export function floodWatch({
  command,
  bytesRead,
}: {
  command: Command;
  /** output that was read so far */
  bytesRead: () => number;
}): () => boolean {
  // Asked for now: a command may have made its pipes larger.
  const left = command.stdout.pipeBytes + (command.stderr?.pipeBytes ?? 0) || terminalBytes;
  const lastByte = bytesRead() + left;
  const exitedAt = performance.now();
  return () => bytesRead() > lastByte && performance.now() - exitedAt > drainMs;
}

/** The client is gone: SIGHUP to the group, up to 2 s, SIGKILL to what is left of it. Resolves when that is done. */
export async function hangUp(command: Command): Promise<void> {
  const deadline = performance.now() + hangupGraceMs;
  let alive = command.signalGroup(SIGHUP);
  while (alive && performance.now() < deadline) {
    await sleep(pollMs);
    alive = command.signalGroup(0);
  }
  if (alive) command.signalGroup(SIGKILL);
}

function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

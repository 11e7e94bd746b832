/** How a session ends ("Exit and teardown"): the drain after an exit, and the hang-up after a disconnect. */
import type { ExitStatus } from "#sys/spawn.ts";
import type { Command } from "./command.ts";
import type { ClientLink } from "./link.ts";
import type { OutputProgress } from "./output.ts";

/** how long output may stay open after the command exited while nothing waits for the client */
const drainMs = 200;
/** what the command's pipes or terminal can hold at its exit, so what may be cut only after this much was read */
const capacityBytes = 512 * 1024;
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
 * which nothing waited for the client; a slow client is no reason to cut what the command itself wrote.
 */
export async function drain({
  outputDone,
  link,
  progress,
}: {
  outputDone: Promise<unknown>;
  link: ClientLink;
  progress: OutputProgress;
}): Promise<void> {
  let done = false;
  void outputDone.then(() => {
    done = true;
  });
  const readAtExit = progress.bytesRead;
  const started = performance.now();
  let idleMs = 0;
  let last = started;
  while (!done && !link.closed) {
    await Promise.race([outputDone, sleep(pollMs)]);
    const now = performance.now();
    if (link.queuedBytes === 0) idleMs += now - last;
    last = now;
    const flooded = progress.bytesRead - readAtExit > capacityBytes && now - started > drainMs;
    if (idleMs >= drainMs || flooded) return;
  }
}

/** As {@link drain} for a session that needs no client: only a client that is `behind` stops the 200 ms from running. */
export async function drainDetached({
  outputDone,
  behind,
}: {
  outputDone: Promise<unknown>;
  behind: () => boolean;
}): Promise<void> {
  let done = false;
  void outputDone.then(() => {
    done = true;
  });
  let idleMs = 0;
  let last = performance.now();
  while (!done && idleMs < drainMs) {
    await Promise.race([outputDone, sleep(pollMs)]);
    const now = performance.now();
    if (!behind()) idleMs += now - last;
    last = now;
  }
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

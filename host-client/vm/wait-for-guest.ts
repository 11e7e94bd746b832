import { setTimeout as sleep } from "node:timers/promises";
import type { HelloReply } from "#protocol/control/replies.ts";
import { probeHello } from "../clients/control/one-shot.ts";
import type { Address } from "../transport/target.ts";

/** A connect that is lost while the guest's driver starts must not use up the whole wait. */
const attemptTimeoutMs = 3_000;
const firstPauseMs = 50;
const longestPauseMs = 150;

export interface GuestAnswer {
  hello: HelloReply;
  /** tries that it took */
  attempts: number;
}

/** Nobody answered in time. `lastProblem` is why the last try failed. */
export class NoAnswer extends Error {
  override readonly name = "NoAnswer";

  constructor(
    readonly attempts: number,
    readonly timeoutMs: number,
    lastProblem: unknown,
  ) {
    const reason = lastProblem instanceof Error ? lastProblem.message : String(lastProblem);
    super(`no answer within ${timeoutMs / 1000} s (${attempts} tries; the last: ${reason})`, { cause: lastProblem });
  }
}

/**
 * Says hello on the control port until the guest answers. Tries are counted, not reported one by one. Throws
 * {@link NoAnswer}, or the signal's reason.
 */
export async function waitForGuest(options: {
  target: Address;
  timeoutMs: number;
  signal?: AbortSignal;
}): Promise<GuestAnswer> {
  const { target, timeoutMs, signal } = options;
  const deadline = performance.now() + timeoutMs;
  let pauseMs = firstPauseMs;
  for (let attempts = 1; ; attempts++) {
    signal?.throwIfAborted();
    const left = deadline - performance.now();
    try {
      const limits = { timeoutMs: Math.max(1, Math.min(attemptTimeoutMs, left)), ...(signal && { signal }) };
      return { hello: await probeHello({ target, ...limits }), attempts };
    } catch (error) {
      signal?.throwIfAborted();
      if (performance.now() + pauseMs >= deadline) throw new NoAnswer(attempts, timeoutMs, error);
    }
    await sleep(pauseMs);
    pauseMs = Math.min(longestPauseMs, pauseMs * 1.5);
  }
}

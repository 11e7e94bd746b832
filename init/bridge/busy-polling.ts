/**
 * Waits for events awake before it sleeps, for as long as experience says that they are near: to put the processor to
 * sleep and to wake it takes longer than the next message of a busy connection. The window grows with every sleep that
 * was short and closes after one that was long, as a hypervisor's halt polling does, so an idle bridge costs nothing.
 * Between two looks others may run; while one of them keeps the processor to itself, it is left to that one.
 */
import type { EventQueue } from "#sys/event-queue.ts";
import { yieldProcessor } from "#sys/process.ts";

const firstWindowMs = 0.05;
export const maxWindowMs = 0.2;
/** who has the processor for this long computes, and does not just pass bytes on */
const crowdedMs = 1;
export const crowdedPauseMs = 100;

export interface BusyPollingOptions {
  readonly events: Pick<EventQueue, "wait">;
  /** milliseconds */
  readonly now?: () => number;
  readonly yieldToOthers?: () => void;
}

export class BusyPolling {
  readonly #events: Pick<EventQueue, "wait">;
  readonly #now: () => number;
  readonly #yieldToOthers: () => void;
  #windowMs = 0;
  #crowdedUntil = Number.NEGATIVE_INFINITY;

  constructor({ events, now = () => performance.now(), yieldToOthers = yieldProcessor }: BusyPollingOptions) {
    this.#events = events;
    this.#now = now;
    this.#yieldToOthers = yieldToOthers;
  }

  /** As {@link EventQueue.wait}. */
  wait(timeoutMs: number): number {
    if (timeoutMs === 0) return this.#events.wait(0);
    const count = this.#waitAwake();
    if (count > 0) return count;
    const sleptAt = this.#now();
    const late = this.#events.wait(timeoutMs);
    this.#learn(this.#now() - sleptAt);
    return late;
  }

  #waitAwake(): number {
    const startedAt = this.#now();
    if (startedAt < this.#crowdedUntil) return 0;
    for (let now = startedAt; now - startedAt < this.#windowMs; ) {
      const count = this.#events.wait(0);
      if (count > 0) return count;
      this.#yieldToOthers();
      const before = now;
      now = this.#now();
      if (now - before >= crowdedMs) this.#crowdedUntil = now + crowdedPauseMs;
    }
    return 0;
  }

  #learn(sleptMs: number): void {
    this.#windowMs = sleptMs > maxWindowMs ? 0 : Math.min(maxWindowMs, Math.max(firstWindowMs, this.#windowMs * 2));
  }
}

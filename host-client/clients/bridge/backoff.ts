/** Delays between attempts to reach the core again: 250 ms, doubling up to 5 s (companion, "Connections"). */
const firstDelayMs = 250;
const longestDelayMs = 5_000;
/** a connection that was ready for so long starts the delays over */
const goodMs = 5_000;

export class Backoff {
  #delayMs = firstDelayMs;

  /** The delay before the next attempt. */
  next(): number {
    const delay = this.#delayMs;
    this.#delayMs = Math.min(delay * 2, longestDelayMs);
    return delay;
  }

  /** @param readyMs how long the connection that was lost had been ready */
  lost(readyMs: number): void {
    if (readyMs >= goodMs) this.#delayMs = firstDelayMs;
  }
}

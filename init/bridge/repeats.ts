/** Logs something that may happen again and again: the first time, and then no more than once a minute, with a count. */
import type { Log } from "#sys/log.ts";

const quietMs = 60_000;

export class Repeats {
  readonly #log: Log;
  readonly #message: string;
  #reason = "";
  #unsaid = 0;
  #saidAt = Number.NEGATIVE_INFINITY;

  constructor(log: Log, message: string) {
    this.#log = log;
    this.#message = message;
  }

  note(reason: string): void {
    const now = performance.now();
    if (reason === this.#reason && now - this.#saidAt < quietMs) {
      this.#unsaid += 1;
      return;
    }
    this.#log.warn(this.#message, { reason, ...(this.#unsaid > 0 ? { unsaidBefore: this.#unsaid } : {}) });
    this.#reason = reason;
    this.#unsaid = 0;
    this.#saidAt = now;
  }
}

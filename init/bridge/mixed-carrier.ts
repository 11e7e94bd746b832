/**
 * Copies what is small and splices what is large: a message of a few hundred bytes is sooner copied than its page is
 * handed through a pipe. Which of the two a burst gets is guessed from its first read and from the burst before it.
 */
import { Blocked } from "#sys/splice.ts";
import { BufferCarrier, type BufferPool } from "./buffer-carrier.ts";
import type { Carrier } from "./carrier.ts";
import { PipeCarrier } from "./pipe-carrier.ts";
import type { PipePool } from "./pipe-pool.ts";

export class MixedCarrier implements Carrier {
  readonly #copied: BufferCarrier;
  readonly #spliced: PipeCarrier;
  readonly #smallBytes: number;
  /** since the source was last seen empty */
  #burstBytes = 0;
  #splices = false;

  /** @param buffers a burst that is larger than these is spliced */
  constructor(buffers: BufferPool, pipes: PipePool) {
    this.#copied = new BufferCarrier(buffers);
    this.#spliced = new PipeCarrier(pipes);
    this.#smallBytes = buffers.bufferBytes;
  }

  get held(): number {
    return this.#copied.held + this.#spliced.held;
  }

  fill(source: number): number {
    // What was copied is older than what would be spliced: it goes first.
    if (this.#splices && this.#copied.held > 0) return Blocked;
    const count = (this.#splices ? this.#spliced : this.#copied).fill(source);
    if (count > 0) this.#burstBytes += count;
    if (this.#burstBytes >= this.#smallBytes) this.#splices = true;
    return count;
  }

  drain(target: number): number {
    return (this.#copied.held > 0 ? this.#copied : this.#spliced).drain(target);
  }

  release(): void {
    this.#copied.release();
    this.#spliced.release();
    this.#splices = this.#burstBytes >= this.#smallBytes;
    this.#burstBytes = 0;
  }
}

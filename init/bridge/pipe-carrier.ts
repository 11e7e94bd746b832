/** Carries bytes through a pipe with `splice(2)`: they never enter the process. */
import type { Pipe } from "#sys/fd.ts";
import { Blocked, moveBytes } from "#sys/splice.ts";
import type { Carrier } from "./carrier.ts";
import { type PipePool, pipeBytes } from "./pipe-pool.ts";

export class PipeCarrier implements Carrier {
  held = 0;
  readonly #pool: PipePool;
  #pipe: Pipe | undefined;

  constructor(pool: PipePool) {
    this.#pool = pool;
  }

  fill(source: number): number {
    if (this.held >= pipeBytes) return Blocked;
    this.#pipe ??= this.#pool.take();
    const count = moveBytes(source, this.#pipe.writeFd, pipeBytes - this.held);
    if (count > 0) this.held += count;
    return count;
  }

  drain(target: number): number {
    const count = moveBytes((this.#pipe as Pipe).readFd, target, this.held);
    if (count > 0) this.held -= count;
    return count;
  }

  release(): void {
    if (this.#pipe === undefined) return;
    if (this.held === 0) this.#pool.giveBack(this.#pipe);
    else this.#pool.discard(this.#pipe);
    this.#pipe = undefined;
    this.held = 0;
  }
}

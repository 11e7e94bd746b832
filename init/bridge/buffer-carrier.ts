/** Carries bytes through memory of this process. */
import { Blocked, SocketBuffer } from "#sys/splice.ts";
import type { Carrier } from "./carrier.ts";

const keptBuffers = 8;

export class BufferPool {
  readonly #spare: SocketBuffer[] = [];

  constructor(readonly bufferBytes: number) {}

  take(): SocketBuffer {
    return this.#spare.pop() ?? new SocketBuffer(this.bufferBytes);
  }

  giveBack(buffer: SocketBuffer): void {
    if (this.#spare.length < keptBuffers) this.#spare.push(buffer);
  }
}

export class BufferCarrier implements Carrier {
  readonly #pool: BufferPool;
  #buffer: SocketBuffer | undefined;
  #start = 0;
  #end = 0;

  constructor(pool: BufferPool) {
    this.#pool = pool;
  }

  get held(): number {
    return this.#end - this.#start;
  }

  fill(source: number): number {
    this.#buffer ??= this.#pool.take();
    if (this.#end === this.#buffer.size) return Blocked;
    const count = this.#buffer.receive(source, this.#end);
    if (count > 0) this.#end += count;
    return count;
  }

  drain(target: number): number {
    const count = (this.#buffer as SocketBuffer).transmit(target, this.#start, this.held);
    if (count > 0) this.#start += count;
    if (this.#start === this.#end) {
      this.#start = 0;
      this.#end = 0;
    }
    return count;
  }

  release(): void {
    if (this.#buffer === undefined) return;
    this.#pool.giveBack(this.#buffer);
    this.#buffer = undefined;
    this.#start = 0;
    this.#end = 0;
  }
}

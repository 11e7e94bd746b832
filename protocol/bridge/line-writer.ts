/**
 * Writes lines to a stream in batches: what is written in one turn, or while the stream is busy, goes out in one piece.
 * Thousands of small messages so cost a few system calls.
 */

/** Takes bytes and calls back once it can take more; with or without an error, and also when the stream is closed. */
export type ByteSink = (bytes: Uint8Array, done: () => void) => void;

/** so many UTF-16 units make a batch, and a longer line one of its own */
const batchUnits = 1024 * 1024;

/** Lines that are handed over together, and those who wait for it. */
class Batch {
  readonly lines: string[] = [];
  units = 0;
  readonly taken: Promise<void>;
  settle: () => void = () => {};

  constructor() {
    this.taken = new Promise((resolve) => {
      this.settle = resolve;
    });
  }
}

export class LineWriter {
  readonly #sink: ByteSink;
  readonly #batches: Batch[] = [];
  #waitingUnits = 0;
  /** the batch that the stream has now */
  #sending: Batch | undefined;
  #scheduled = false;
  #closed = false;

  constructor(sink: ByteSink) {
    this.#sink = sink;
  }

  /** UTF-16 units that the stream has not taken yet */
  get waitingUnits(): number {
    return this.#waitingUnits;
  }

  /** Resolves once the stream has taken the line, or is closed; never rejects. Await it before writing much more. */
  write(line: string): Promise<void> {
    if (this.#closed) return Promise.resolve();
    let batch = this.#batches.at(-1);
    if (batch === undefined || batch.units >= batchUnits) {
      batch = new Batch();
      this.#batches.push(batch);
    }
    batch.lines.push(line);
    batch.units += line.length;
    this.#waitingUnits += line.length;
    if (this.#sending === undefined && !this.#scheduled) {
      this.#scheduled = true;
      queueMicrotask(() => this.#flush());
    }
    return batch.taken;
  }

  /** Resolves once the stream has taken everything written so far, or is closed. */
  drained(): Promise<void> {
    return (this.#batches.at(-1) ?? this.#sending)?.taken ?? Promise.resolve();
  }

  /** Drops what waits; its writers go on. */
  close(): void {
    this.#closed = true;
    this.#waitingUnits = 0;
    this.#sending?.settle();
    for (const batch of this.#batches.splice(0)) batch.settle();
  }

  #flush(): void {
    this.#scheduled = false;
    const batch = this.#batches.shift();
    if (batch === undefined) return;
    const { lines } = batch;
    this.#sending = batch;
    this.#sink(Buffer.from(lines.length === 1 ? (lines[0] as string) : lines.join("")), () => {
      this.#sending = undefined;
      if (!this.#closed) this.#waitingUnits -= batch.units;
      batch.settle();
      this.#flush();
    });
  }
}

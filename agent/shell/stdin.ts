/**
 * A session's input: a bounded queue in front of the command's stdin, and the credit that its client gets back
 * ("Stdin flow control"). The frame-reading loop never waits for the command unless a client overruns its credit.
 */
import { initialCredit } from "#protocol/shell/start.ts";
import type { FdWriter } from "#sys/stream-fd.ts";

export class StdinQueue {
  readonly #writer: FdWriter;
  readonly #tty: boolean;
  readonly #flow: boolean;
  /** tells the client that this many bytes may follow; only called with flow control */
  readonly #grant: (bytes: number) => void;
  /** runs when the queue takes payloads again after {@link full} */
  readonly #resumed: () => void;
  readonly #payloads: Uint8Array[] = [];
  #queuedBytes = 0;
  #ended = false;
  #writing = false;

  constructor({
    writer,
    tty,
    flow,
    grant,
    resumed,
  }: {
    writer: FdWriter;
    tty: boolean;
    flow: boolean;
    grant: (bytes: number) => void;
    resumed: () => void;
  }) {
    this.#writer = writer;
    this.#tty = tty;
    this.#flow = flow;
    this.#grant = grant;
    this.#resumed = resumed;
  }

  /** Whether a payload of that size has to wait in the reading loop: only for a client beyond its credit. */
  wouldBlock(payloadBytes: number): boolean {
    return this.#queuedBytes > 0 && this.#queuedBytes + payloadBytes > initialCredit;
  }

  /** Queues a payload. Input after `end` is dropped, its credit not returned. */
  push(payload: Uint8Array): void {
    if (this.#ended || payload.length === 0) return;
    this.#payloads.push(payload);
    this.#queuedBytes += payload.length;
    void this.#drain();
  }

  /**
   * stdinEOF: on pipes the command's stdin closes behind what is queued; on a pty it stays open and later input is dropped,
   * or, without flow control, the frame is ignored.
   */
  end(): void {
    if (this.#tty && !this.#flow) return;
    this.#ended = true;
    void this.#drain();
  }

  /** The session is over: nothing more is written. */
  close(): void {
    this.#payloads.length = 0;
    this.#queuedBytes = 0;
    this.#ended = true;
    this.#writer.close();
  }

  async #drain(): Promise<void> {
    if (this.#writing) return;
    this.#writing = true;
    for (let payload = this.#payloads.shift(); payload !== undefined; payload = this.#payloads.shift()) {
      // A command that closed its stdin drops the rest; the credit comes back all the same.
      await this.#writer.write(payload);
      this.#queuedBytes = Math.max(0, this.#queuedBytes - payload.length);
      if (this.#flow) this.#grant(payload.length);
      this.#resumed();
    }
    this.#writing = false;
    if (this.#ended && !this.#tty) this.#writer.close();
  }
}

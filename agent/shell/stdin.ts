/**
 * A session's input: a bounded queue in front of the command's stdin, and the credit that its client gets back
 * ("Stdin flow control"). The frame-reading loop never waits for the command unless a client overruns its credit.
 */
import { initialCredit } from "#protocol/shell/start.ts";
import type { FdWriter } from "#sys/stream-fd.ts";

export class StdinQueue {
  readonly #writer: FdWriter;
  readonly #tty: boolean;
  /** runs when a payload was taken, so that one that waits may follow */
  readonly #resumed: () => void;
  readonly #payloads: Uint8Array[] = [];
  #grant: ((bytes: number) => void) | undefined;
  #queuedBytes = 0;
  /** queued for a former client beyond what any client may be granted */
  #excessBytes = 0;
  #ended = false;
  #writing = false;

  constructor({ writer, tty, resumed }: { writer: FdWriter; tty: boolean; resumed: () => void }) {
    this.#writer = writer;
    this.#tty = tty;
    this.#resumed = resumed;
  }

  /**
   * Takes input from this client from now on. `grant` tells it that as many bytes may follow, beyond its first `credit`; it
   * is only called with flow control. On a pty a new client may type even when the former one had ended its input.
   */
  serve({ flow, grant }: { flow: boolean; grant: (bytes: number) => void }): void {
    this.#grant = flow ? grant : undefined;
    this.#excessBytes = Math.max(0, this.#queuedBytes - initialCredit);
    if (this.#tty && !this.#writer.closed) this.#ended = false;
  }

  /** What a new client may send: less than all while input of a former one waits, so that its own never has to. */
  get credit(): number {
    return Math.max(0, initialCredit - this.#queuedBytes);
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
    if (this.#tty && this.#grant === undefined) return;
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
      this.#giveBack(payload.length);
      this.#resumed();
    }
    this.#writing = false;
    if (this.#ended && !this.#tty) this.#writer.close();
  }

  #giveBack(bytes: number): void {
    const excess = Math.min(bytes, this.#excessBytes);
    this.#excessBytes -= excess;
    if (bytes > excess) this.#grant?.(bytes - excess);
  }
}

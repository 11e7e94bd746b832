/**
 * Lines for a console or a pipe that may not hold up the program that writes them. What finds no room waits in a queue;
 * once that is full, lines are dropped, counted, and told about as soon as there is room again.
 */
import { constants, fstatSync, openSync } from "node:fs";
import { WOULD_BLOCK, writeFd } from "./fd.ts";

/** a write is taken while less than this waits */
const queueBytes = 64 * 1024;
const retryMs = 5;
const stalledRetryMs = 100;
/** an output that has taken nothing for so long has stalled, and nobody waits for it any more */
const patienceMs = 1_000;
const newline = 0x0a;

export interface LineOutputOptions {
  readonly fd: number;
  /** the line that tells how many lines were dropped */
  readonly describeLoss: (lines: number) => string;
}

export class LineOutput {
  readonly #originalFd: number;
  readonly #describeLoss: (lines: number) => string;
  #fd: number | undefined;
  readonly #queue: Uint8Array[] = [];
  /** of the first write in the queue, what has gone */
  #sent = 0;
  #queuedBytes = 0;
  #lostLines = 0;
  #lastMoved = 0;
  #retry: NodeJS.Timeout | undefined;

  constructor({ fd, describeLoss }: LineOutputOptions) {
    this.#originalFd = fd;
    this.#describeLoss = describeLoss;
  }

  /** Takes whole lines, or drops them; never waits. An output that has gone takes everything and keeps nothing. */
  write(lines: Uint8Array): void {
    if (this.#queuedBytes >= queueBytes) this.#flush();
    if (this.#queuedBytes >= queueBytes) {
      this.#lostLines += countLines(lines);
      return;
    }
    if (this.#queuedBytes === 0) this.#lastMoved = performance.now();
    this.#enqueue(lines);
    this.#flush();
  }

  /** Resolves when everything has gone; at once, or after a second, when the output has stalled. */
  async drained(): Promise<void> {
    while (this.#queuedBytes > 0 && !this.#stalled) await new Promise((resolve) => setTimeout(resolve, retryMs));
  }

  get #stalled(): boolean {
    return performance.now() - this.#lastMoved > patienceMs;
  }

  #enqueue(lines: Uint8Array): void {
    this.#queue.push(lines);
    this.#queuedBytes += lines.length;
  }

  #flush(): void {
    try {
      this.#send();
    } catch {
      this.#queue.length = 0;
      this.#queuedBytes = 0;
      this.#sent = 0;
    }
    if (this.#queuedBytes > 0) this.#retryLater();
  }

  #send(): void {
    this.#fd ??= openWithoutBlocking(this.#originalFd);
    for (let head = this.#queue[0]; head !== undefined; head = this.#queue[0]) {
      const count = writeFd(this.#fd, head, this.#sent);
      if (count === WOULD_BLOCK) return;
      this.#lastMoved = performance.now();
      this.#sent += count;
      this.#queuedBytes -= count;
      if (this.#sent < head.length) continue;
      this.#queue.shift();
      this.#sent = 0;
      if (this.#queue.length === 0 && this.#lostLines > 0) {
        this.#enqueue(Buffer.from(this.#describeLoss(this.#lostLines)));
        this.#lostLines = 0;
      }
    }
  }

  #retryLater(): void {
    this.#retry ??= setTimeout(
      () => {
        this.#retry = undefined;
        this.#flush();
      },
      this.#stalled ? stalledRetryMs : retryMs,
    ).unref();
  }
}

/**
 * A description of its own of the terminal or pipe behind `fd`: the others that share `fd` expect it to block. Where there
 * is none to be had, `fd` itself.
 */
function openWithoutBlocking(fd: number): number {
  const kind = fstatSync(fd);
  if (!kind.isCharacterDevice() && !kind.isFIFO()) return fd;
  try {
    return openSync(`/proc/self/fd/${fd}`, constants.O_WRONLY | constants.O_NONBLOCK | constants.O_NOCTTY);
  } catch {
    return fd;
  }
}

function countLines(bytes: Uint8Array): number {
  let count = 0;
  for (let at = bytes.indexOf(newline); at >= 0; at = bytes.indexOf(newline, at + 1)) count += 1;
  return count;
}

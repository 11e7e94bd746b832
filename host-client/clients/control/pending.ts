import type { WireMessage } from "#protocol/control/message.ts";
import { ControlError } from "./error.ts";

/** Takes the raw block of a reply, piece by piece. */
export type RawSink = (piece: Uint8Array, reply: WireMessage) => Promise<void> | void;

/** One request that awaits its reply, and the timer that ends the wait. */
export class PendingRequest {
  readonly reply: Promise<WireMessage>;
  #settled = false;
  #timedOut = false;
  #timer: NodeJS.Timeout | undefined;
  #resolve: (reply: WireMessage) => void = () => {};
  #reject: (error: Error) => void = () => {};

  constructor(
    /** names the request in errors, e.g. `file_get /etc/motd` */
    readonly what: string,
    /** milliseconds without an answer, or without progress of a transfer */
    private readonly timeoutMs: number,
    private readonly onTimeout: () => void,
    readonly sink: RawSink | undefined,
  ) {
    this.reply = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
    // The holder may be busy sending when it fails; the rejection is taken up when it awaits the reply.
    this.reply.catch(() => {});
    this.progress();
  }

  get timedOut(): boolean {
    return this.#timedOut;
  }

  get settled(): boolean {
    return this.#settled;
  }

  /** Starts the wait anew: bytes of this request moved. */
  progress(): void {
    clearTimeout(this.#timer);
    if (this.#settled) return;
    this.#timer = setTimeout(() => {
      this.#timedOut = true;
      this.onTimeout();
      this.fail(new ControlError("timeout", `${this.what}: no answer within ${this.timeoutMs / 1000} s`));
    }, this.timeoutMs);
  }

  succeed(reply: WireMessage): void {
    this.#settle();
    this.#resolve(reply);
  }

  fail(error: Error): void {
    this.#settle();
    this.#reject(error);
  }

  #settle(): void {
    this.#settled = true;
    clearTimeout(this.#timer);
  }
}

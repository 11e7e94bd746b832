/** The client's half of stdin flow control: never more than granted, and nothing before the agent has said which kind it is. */

type Grant =
  /** neither `window` nor `started` has arrived: stdin is held back */
  | { readonly kind: "unknown" }
  /** `started` came first: an agent without flow control */
  | { readonly kind: "unlimited" }
  | { kind: "credit"; bytes: number };

export class StdinCredit {
  #grant: Grant = { kind: "unknown" };
  #waiting: (() => void) | undefined;

  /** A `window` frame arrived. */
  add(bytes: number): void {
    if (this.#grant.kind === "credit") this.#grant.bytes += bytes;
    else if (this.#grant.kind === "unknown") this.#grant = { kind: "credit", bytes };
    this.#wake();
  }

  /** `started` arrived: without a window before it, stdin is unlimited. */
  started(): void {
    if (this.#grant.kind === "unknown") this.#grant = { kind: "unlimited" };
    this.#wake();
  }

  /** Takes up to `wanted` bytes of credit; 0 means wait. */
  take(wanted: number): number {
    if (this.#grant.kind === "unknown") return 0;
    if (this.#grant.kind === "unlimited") return wanted;
    const taken = Math.min(wanted, this.#grant.bytes);
    this.#grant.bytes -= taken;
    return taken;
  }

  /** Whether the agent has said how stdin flows. */
  get known(): boolean {
    return this.#grant.kind !== "unknown";
  }

  /** Calls back once when credit may be there. One waiter at a time. */
  whenChanged(callback: () => void): void {
    this.#waiting = callback;
  }

  #wake(): void {
    const waiting = this.#waiting;
    this.#waiting = undefined;
    waiting?.();
  }
}

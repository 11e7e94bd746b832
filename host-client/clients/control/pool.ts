import type { Connection } from "../../transport/connection.ts";
import { ControlConnection } from "./connection.ts";
import { ControlError } from "./error.ts";

/** The daemon serves a connection's requests one after another, so what is to run side by side needs several. */
export class ControlPool {
  readonly #idle: ControlConnection[] = [];
  readonly #working = new Set<ControlConnection>();
  readonly #waiting: (() => void)[] = [];
  #inUse = 0;
  #aborted = false;

  constructor(
    private readonly dial: () => Promise<Connection>,
    /** connections at most */
    readonly size = 4,
  ) {}

  get aborted(): boolean {
    return this.#aborted;
  }

  /** Does the work on a connection of its own, dialled when none is idle. Idle connections keep no process alive. */
  async use<T>(work: (control: ControlConnection) => Promise<T>): Promise<T> {
    while (this.#inUse >= this.size) await new Promise<void>((resolve) => this.#waiting.push(resolve));
    this.#inUse++;
    let control: ControlConnection | undefined;
    try {
      this.#refuseAborted();
      control = this.#takeIdle() ?? (await ControlConnection.open(await this.dial()));
      this.#working.add(control);
      this.#refuseAborted();
      return await work(control);
    } finally {
      this.#inUse--;
      if (control !== undefined) this.#putBack(control);
      this.#waiting.shift()?.();
    }
  }

  /** Closes the idle connections. */
  close(): void {
    for (const control of this.#idle.splice(0)) control.close();
  }

  /** Breaks off what is under way: it fails with `closed`, as does whatever comes after it. */
  abort(): void {
    this.#aborted = true;
    this.close();
    for (const control of this.#working) control.close();
  }

  #refuseAborted(): void {
    if (this.#aborted) throw new ControlError("closed", "broken off");
  }

  #putBack(control: ControlConnection): void {
    this.#working.delete(control);
    if (this.#aborted) control.close();
    if (!control.open) return;
    control.idle(true);
    this.#idle.push(control);
  }

  #takeIdle(): ControlConnection | undefined {
    for (let control = this.#idle.pop(); control !== undefined; control = this.#idle.pop()) {
      if (!control.open) continue;
      control.idle(false);
      return control;
    }
    return undefined;
  }
}

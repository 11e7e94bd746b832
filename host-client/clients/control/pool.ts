import type { Connection } from "../../transport/connection.ts";
import { ControlConnection } from "./connection.ts";

/** The daemon serves a connection's requests one after another, so what is to run side by side needs several. */
export class ControlPool {
  readonly #idle: ControlConnection[] = [];
  readonly #waiting: (() => void)[] = [];
  #inUse = 0;

  constructor(
    private readonly dial: () => Promise<Connection>,
    /** connections at most */
    readonly size = 4,
  ) {}

  /** Does the work on a connection of its own, dialled when none is idle. Idle connections keep no process alive. */
  async use<T>(work: (control: ControlConnection) => Promise<T>): Promise<T> {
    while (this.#inUse >= this.size) await new Promise<void>((resolve) => this.#waiting.push(resolve));
    this.#inUse++;
    let control: ControlConnection | undefined;
    try {
      control = this.#takeIdle() ?? (await ControlConnection.open(await this.dial()));
      return await work(control);
    } finally {
      this.#inUse--;
      if (control?.open) {
        control.idle(true);
        this.#idle.push(control);
      }
      this.#waiting.shift()?.();
    }
  }

  close(): void {
    for (const control of this.#idle.splice(0)) control.close();
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

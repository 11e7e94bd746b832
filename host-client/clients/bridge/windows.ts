/** The windows of a session. They live as long as the connection: a core that is reached again opens its own anew. */
import { OpError } from "./error.ts";
import type { WindowParams } from "./ops.ts";

/** A core that asks for more has gone wrong. */
const maxWindows = 64;

export class Windows {
  readonly #open = new Map<number, WindowParams>();
  #nextId = 1;

  /** the open windows by id, oldest first */
  get open(): ReadonlyMap<number, WindowParams> {
    return this.#open;
  }

  add(params: WindowParams): number {
    if (this.#open.size >= maxWindows)
      throw new OpError("too_many_windows", `an app has at most ${maxWindows} windows open`);
    const win = this.#nextId;
    this.#nextId += 1;
    this.#open.set(win, params);
    return win;
  }

  require(win: number): void {
    if (!this.#open.has(win)) throw new OpError("no_window", `there is no window ${win}`);
  }

  remove(win: number): void {
    this.require(win);
    this.#open.delete(win);
  }

  /** Removes all, and answers which. */
  clear(): number[] {
    const all = [...this.#open.keys()];
    this.#open.clear();
    return all;
  }
}

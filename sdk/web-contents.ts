import type { Core } from "./core.ts";
import { describe, warn } from "./log.ts";

/** The page in a window: what the core can push to. */
export class WebContents {
  readonly #core: Core;
  readonly #win: () => number | undefined;
  /** pushed before the platform has said which window it is */
  #early: { channel: string; args: readonly unknown[] }[] = [];
  #destroyed = false;

  /** @param win id of the window, undefined until the platform has given it one */
  constructor(core: Core, win: () => number | undefined) {
    this.#core = core;
    this.#win = win;
  }

  /** id that the host gave the window; undefined before that */
  get id(): number | undefined {
    return this.#win();
  }

  /**
   * Pushes to the page, in order. Resolves once the message is handed to the system, which is worth awaiting when much
   * is sent. Throws `EncodeError` for arguments that JSON cannot carry, and a TypeError once the window is closed.
   */
  send(channel: string, ...args: unknown[]): Promise<void> {
    if (this.#destroyed) throw new TypeError("Object has been destroyed");
    const win = this.#win();
    if (win !== undefined) return this.#core.emit(win, channel, args);
    this.#early.push({ channel, args });
    return Promise.resolve();
  }

  isDestroyed(): boolean {
    return this.#destroyed;
  }

  /** @internal sends what had to wait for the window's id */
  flushEarly(): void {
    const early = this.#early;
    this.#early = [];
    for (const { channel, args } of early) {
      try {
        void this.send(channel, ...args);
      } catch (error) {
        warn(`not sent: ${describe(error)}`);
      }
    }
  }

  /** @internal */
  destroy(): void {
    this.#destroyed = true;
    this.#early = [];
  }
}

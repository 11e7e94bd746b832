/** Raw mode of the local terminal, and its way back. */
import { spawnSync } from "node:child_process";
import type { ReadStream } from "node:tty";

/**
 * Keys go to the command as they are, and output to the screen as it is. Whatever ends the process in an orderly way, an
 * uncaught error too, gives the terminal back as it was.
 */
export class RawMode {
  readonly #input: ReadStream & { readonly fd: number };
  #raw = false;
  readonly #lastResort = () => this.leave();

  constructor(input: ReadStream & { readonly fd: number }) {
    this.#input = input;
  }

  /** Also puts a terminal back into raw mode that somebody else has changed, as a shell does with a stopped job's. */
  enter(): void {
    if (this.#raw) this.leave();
    this.#raw = true;
    // Before the error is printed, so that it can be read; it ends the process all the same.
    process.on("uncaughtExceptionMonitor", this.#lastResort);
    process.on("exit", this.#lastResort);
    this.#input.setRawMode(true);
    // The runtime's raw mode still turns a line feed into CR LF, which the guest's terminal has done already where it
    // should be done; a program that moves down a column by line feeds would draw a staircase the wrong way.
    spawnSync("stty", ["-opost"], { stdio: [this.#input.fd, "ignore", "ignore"] });
  }

  leave(): void {
    if (!this.#raw) return;
    this.leaveToRuntime();
    this.#input.setRawMode(false);
  }

  /**
   * Leaves it to the runtime, which gives the terminal back as the process exits, at once. {@link leave} is for everything else,
   * and waits for output that is under way: for ever on a terminal that is stuck.
   */
  leaveToRuntime(): void {
    this.#raw = false;
    process.off("uncaughtExceptionMonitor", this.#lastResort);
    process.off("exit", this.#lastResort);
  }
}

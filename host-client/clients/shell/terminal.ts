/** A session on a pty, at the user's own terminal ("TTY and pipe modes", companion "Client"). */
import type { Readable } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import type { ReadStream, WriteStream } from "node:tty";
import { match } from "ts-pattern";
import { type EscapeAction, EscapeFilter, escapeHelp } from "./escape.ts";
import { RawMode } from "./raw-mode.ts";
import { ScreenModes } from "./screen-modes.ts";
import type { ShellSession } from "./session.ts";
import { TerminalOutput } from "./terminal-output.ts";
import { followWindowSize, type WindowSize } from "./window-size.ts";

const endingSignals = ["SIGTERM", "SIGHUP", "SIGINT"] as const;
type EndingSignal = (typeof endingSignals)[number];

/** output that arrived before a session failed is shown for so long at most, in milliseconds */
const tailMs = 2_000;
/** a terminal that takes nothing more does not keep the process, in milliseconds */
const tidyMs = 500;
/** a process group without a job-control shell is not stopped by SIGTSTP, and goes on after this; in milliseconds */
const notStoppedMs = 100;

/** `process.stdin`, when it is a terminal */
export type TerminalInput = ReadStream & { readonly fd: number };

/** How an attachment ended, unless the session failed. */
export type TerminalEnd =
  | { readonly kind: "exit"; readonly code: number }
  /** the user typed `~.` */
  | { readonly kind: "disconnected" }
  /** a signal came for this process, which should exit with 128 + its number */
  | { readonly kind: "signal"; readonly signal: EndingSignal };

export interface TerminalOptions {
  readonly session: ShellSession;
  /** the user's keys; absent: nothing is typed, and the terminal stays as it is */
  readonly input?: TerminalInput | undefined;
  /** where everything is shown; its size is the pty's */
  readonly output: WriteStream & { readonly fd: number };
  /** the size that the session was started with */
  readonly size: WindowSize | undefined;
}

/**
 * Joins the session to the terminal until either ends. The terminal is as it was before when this returns or throws, and
 * everything that the command wrote is on it. Throws the session's `ShellError`. The session is over in every case.
 */
export function attachTerminal(options: TerminalOptions): Promise<TerminalEnd> {
  return new Attachment(options).run();
}

class Attachment {
  readonly #session: ShellSession;
  readonly #input: TerminalInput | undefined;
  readonly #output: TerminalOptions["output"];
  readonly #size: WindowSize | undefined;
  readonly #raw: RawMode | undefined;
  readonly #display: TerminalOutput;
  readonly #screen = new ScreenModes();
  readonly #escapes = new EscapeFilter();
  /** the last write to the terminal; the next one waits for it */
  #written: Promise<void> = Promise.resolve();
  /** what has to be undone at the end, the last first */
  readonly #undo: (() => void)[] = [];
  #over = false;
  #leave: (end: TerminalEnd) => void = () => {};
  /** the user, or a signal, ends it before the command does */
  readonly #left: Promise<TerminalEnd> = new Promise((resolve) => {
    this.#leave = resolve;
  });

  constructor({ session, input, output, size }: TerminalOptions) {
    this.#session = session;
    this.#input = input;
    this.#output = output;
    this.#size = size;
    this.#raw = input && new RawMode(input);
    this.#display = new TerminalOutput(output);
  }

  async run(): Promise<TerminalEnd> {
    let end: TerminalEnd | undefined;
    this.#watchSignals();
    try {
      end = await this.#use();
      return end;
    } finally {
      this.#over = true;
      this.#session.disconnect();
      if (end?.kind !== "exit" || end.code > 128) await this.#tidyScreen();
      this.#display.close();
      if (this.#display.waiting) this.#raw?.leaveToRuntime();
      while (this.#undo.length > 0) this.#undo.pop()?.();
      await this.#session.closed;
    }
  }

  async #use(): Promise<TerminalEnd> {
    const { started, exit, stdout, stderr } = this.#session;
    const over = exit.then(
      () => "over" as const,
      () => "over" as const,
    );
    // Until the command runs, the terminal is the user's own: ^C gives up.
    const begun = await Promise.race([started.then(() => "running" as const).catch(() => over), over, this.#left]);
    if (typeof begun !== "string") return begun;
    if (begun === "running") this.#join();
    const shown = Promise.all([this.#show(stdout), this.#show(stderr)]);
    const ended = this.#awaitEnd(shown);
    return await Promise.race([ended, this.#left, shown.then(() => ended)]);
  }

  async #awaitEnd(shown: Promise<unknown>): Promise<TerminalEnd> {
    try {
      const { code } = await this.#session.exit;
      await shown;
      return { kind: "exit", code };
    } catch (error) {
      await Promise.race([shown.catch(() => {}), sleep(tailMs, undefined, { ref: false })]);
      throw error;
    }
  }

  #watchSignals(): void {
    for (const signal of endingSignals) {
      const onSignal = () => this.#leave({ kind: "signal", signal });
      process.on(signal, onSignal);
      this.#undo.push(() => process.off(signal, onSignal));
    }
  }

  /** The command runs: keys go to it from here on, and it follows the window's size. */
  #join(): void {
    this.#takeKeys();
    const unfollow = followWindowSize({
      output: this.#output,
      known: this.#size,
      changed: (size) => this.#session.resize(size),
    });
    this.#undo.push(unfollow);
  }

  #takeKeys(): void {
    const input = this.#input;
    const raw = this.#raw;
    if (input === undefined || raw === undefined) return;
    const { stdin } = this.#session;
    // Keys behind the end of the command are nobody's.
    stdin.on("error", () => {});
    const onKeys = (typed: Uint8Array): void => {
      for (const action of this.#escapes.push(typed)) this.#act(action, input);
    };
    const onEnd = (): void => {
      stdin.end();
    };
    const onContinue = (): void => raw.enter();
    raw.enter();
    input.on("data", onKeys);
    input.on("end", onEnd);
    input.on("error", onEnd);
    // Whoever asked the user something before has paused it, which a listener does not undo.
    input.resume();
    process.on("SIGCONT", onContinue);
    this.#undo.push(() => {
      process.off("SIGCONT", onContinue);
      input.off("data", onKeys);
      input.off("end", onEnd);
      input.pause();
      raw.leave();
    });
  }

  #act(action: EscapeAction, input: TerminalInput): void {
    match(action)
      .with({ kind: "input" }, ({ bytes }) => {
        const { stdin } = this.#session;
        if (this.#over || stdin.write(bytes)) return;
        input.pause();
        stdin.once("drain", () => {
          if (!this.#over) input.resume();
        });
      })
      .with({ kind: "disconnect" }, () => this.#leave({ kind: "disconnected" }))
      .with({ kind: "suspend" }, () => this.#suspend())
      .with({ kind: "help" }, () => {
        void this.#write(Buffer.from(`\r\n${escapeHelp.join("\r\n")}\r\n`)).catch(() => {});
      })
      .exhaustive();
  }

  /** Stops as a job does on ^Z; the SIGCONT that wakes it brings raw mode back. */
  #suspend(): void {
    this.#raw?.leave();
    process.kill(0, "SIGTSTP");
    setTimeout(() => {
      if (!this.#over) this.#raw?.enter();
    }, notStoppedMs);
  }

  async #show(stream: Readable): Promise<void> {
    for await (const chunk of stream as AsyncIterable<Uint8Array>) {
      if (this.#over) return;
      this.#screen.watch(chunk);
      await this.#write(chunk);
    }
  }

  #write(bytes: Uint8Array): Promise<void> {
    const write = this.#written.then(() => this.#display.write(bytes));
    this.#written = write.catch(() => {});
    return write;
  }

  /** The program on the screen was cut off: what it would have cleaned up is done for it, unless the terminal is stuck. */
  async #tidyScreen(): Promise<void> {
    const tidied = this.#write(Buffer.from(this.#screen.restoration())).catch(() => {});
    await Promise.race([tidied, sleep(tidyMs, undefined, { ref: false })]);
  }
}

/** A control connection that lasts: made again when it is lost, and updating the guest when it has a program to offer. */
import { stockMaxUpdateBytes } from "#protocol/control/limits.ts";
import type { HelloReply } from "#protocol/control/replies.ts";
import type { Connection } from "../../transport/connection.ts";
import { type ClientEvent, type ClientMemory, type ClientState, initialMemory, step } from "./client-state.ts";
import { ControlConnection } from "./connection.ts";
import { ControlError } from "./error.ts";
import { type ProgramFile, ProgramWatch } from "./program-file.ts";
import { pushUpdate } from "./update.ts";

export interface ControlClientOptions {
  /** opens a connection to the guest's control port */
  readonly dial: () => Promise<Connection>;
  /** path of the program that guests are to run; without one nothing is updated */
  readonly program?: string;
  /** every change of state; `createWaitReport` turns them into lines without repeats */
  readonly onState?: (state: ClientState) => void;
  /** bytes of the program that have been sent */
  readonly onUpdateProgress?: (bytesSent: number, totalBytes: number) => void;
  /** stands in for the waits between attempts, in tests */
  readonly delay?: (milliseconds: number) => number;
}

interface Waiter {
  readonly resolve: (control: ControlConnection) => void;
  readonly reject: (error: ControlError) => void;
}

export class ControlClient implements Disposable {
  readonly #options: ControlClientOptions;
  readonly #watch: ProgramWatch | undefined;
  readonly #waiters = new Set<Waiter>();
  #state: ClientState = { name: "idle" };
  #memory: ClientMemory = initialMemory;
  #control: ControlConnection | undefined;
  #program: ProgramFile | undefined;
  #timer: NodeJS.Timeout | undefined;

  constructor(options: ControlClientOptions) {
    this.#options = options;
    this.#watch = options.program === undefined ? undefined : new ProgramWatch(options.program);
  }

  get state(): ClientState {
    return this.#state;
  }

  /** what the guest said of itself; undefined unless ready */
  get hello(): HelloReply | undefined {
    return this.#state.name === "ready" ? this.#state.hello : undefined;
  }

  /** what this host would have the guest run, as it was when it last connected; undefined where there is no such file */
  get program(): ProgramFile | undefined {
    return this.#program;
  }

  start(): this {
    this.#handle({ name: "start" });
    return this;
  }

  /** The connection, once it is ready: shaken hands, and updated if that was due. Rejects with `timeout`, or `closed` when stopped. */
  async ready({ timeoutMs }: { timeoutMs: number }): Promise<ControlConnection> {
    if (this.#state.name === "ready" && this.#control !== undefined) return this.#control;
    if (this.#state.name === "stopped") throw new ControlError("closed", "the client was stopped");
    let timer: NodeJS.Timeout | undefined;
    let waiter: Waiter | undefined;
    try {
      return await new Promise<ControlConnection>((resolve, reject) => {
        waiter = { resolve, reject };
        this.#waiters.add(waiter);
        timer = setTimeout(
          () =>
            reject(
              new ControlError("timeout", `the guest was not ready within ${timeoutMs / 1000} s: ${this.#describe()}`),
            ),
          timeoutMs,
        );
      });
    } finally {
      clearTimeout(timer);
      if (waiter !== undefined) this.#waiters.delete(waiter);
    }
  }

  [Symbol.dispose](): void {
    this.#handle({ name: "stop" });
  }

  #describe(): string {
    const state = this.#state;
    return state.name === "waiting" ? `${state.reason} (attempt ${state.attempts})` : state.name;
  }

  #handle(event: ClientEvent): void {
    const before = this.#state;
    const { state, memory } = step(before, this.#memory, event, { stockBytes: stockMaxUpdateBytes });
    this.#memory = memory;
    if (state === before) return;
    this.#state = state;
    this.#enter(state);
    this.#options.onState?.(state);
  }

  #enter(state: ClientState): void {
    switch (state.name) {
      case "connecting":
        void this.#attempt(state.token);
        return;
      case "updating":
        void this.#update(state.token);
        return;
      case "ready":
        for (const { resolve } of this.#waiters) if (this.#control !== undefined) resolve(this.#control);
        return;
      case "waiting":
        this.#drop();
        this.#timer = setTimeout(
          () => this.#handle({ name: "due" }),
          this.#options.delay?.(state.delayMs) ?? state.delayMs,
        );
        return;
      case "stopped":
        clearTimeout(this.#timer);
        this.#drop();
        for (const { reject } of this.#waiters) reject(new ControlError("closed", "the client was stopped"));
        return;
      case "idle":
      case "handshaking":
        return;
    }
  }

  async #attempt(token: number): Promise<void> {
    try {
      const program = await this.#watch?.current();
      const connection = await this.#options.dial();
      if (!this.#isCurrent(token)) {
        connection.socket.destroy();
        return;
      }
      this.#handle({ name: "connected", token });
      const control = await ControlConnection.open(connection, { binHash: program?.hash });
      if (!this.#isCurrent(token)) {
        control.close();
        return;
      }
      this.#control = control;
      this.#program = program;
      void control.closed.then((reason) => {
        // The end of an update is the update's own to judge: after an `ok` it is what was wanted.
        if (this.#state.name !== "updating") this.#handle({ name: "lost", token, reason: reason.message });
      });
      this.#handle({ name: "greeted", token, hello: control.hello, program: program?.size });
    } catch (error) {
      this.#handle({ name: "lost", token, reason: error instanceof Error ? error.message : String(error) });
    }
  }

  async #update(token: number): Promise<void> {
    const control = this.#control;
    const program = this.#program;
    if (control === undefined || program === undefined) return;
    try {
      await pushUpdate(control, program, (sent) => this.#options.onUpdateProgress?.(sent, program.size));
      this.#handle({ name: "updated", token });
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      this.#handle(control.open ? { name: "update refused", token, reason } : { name: "lost", token, reason });
    }
  }

  #isCurrent(token: number): boolean {
    return "token" in this.#state && this.#state.token === token;
  }

  #drop(): void {
    this.#control?.close();
    this.#control = undefined;
  }
}

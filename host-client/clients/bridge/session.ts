/**
 * The host end of the bridge: one connection to an app's core, kept up. Implements the companion's rules for the host
 * end: `init` on each connection, permissions, one answer a call, pending calls failed at once when the connection is
 * lost, reconnecting, and the 3 s that an app has after `before-quit`.
 */
import { EventEmitter } from "node:events";
import { EncodeError } from "#protocol/bridge/encode.ts";
import type { BridgeMessage, CoreMessage, HostMessage, RequestMessage } from "#protocol/bridge/messages.ts";
import type { Parsed } from "#protocol/bridge/parse.ts";
import { asBridgeError, BridgeError, OpError } from "./error.ts";
import { type InitOptions, initMessage } from "./init-message.ts";
import { type InspectedMessage, Inspector } from "./inspector.ts";
import { Invocations } from "./invocations.ts";
import type { Link } from "./link.ts";
import { defaultPermissions, headlessOps, type OpContext, type OpName, type Ops, type WindowParams } from "./ops.ts";
import { Requests } from "./requests.ts";
import type { AppEvents, CallOptions } from "./session-events.ts";
import { startLimit } from "./time-limit.ts";
import { type AppState, type Dial, Upkeep } from "./upkeep.ts";
import { Windows } from "./windows.ts";

const defaultConnectMs = 60_000;

export interface AppOptions extends InitOptions {
  /** what the core may request; windows, dialogs, notifications and quitting when absent */
  permissions?: readonly OpName[];
  /** replaces what operations do */
  ops?: Partial<Ops>;
  /** limit of the first connect, until the core is ready, in milliseconds; 60 000 when absent */
  timeoutMs?: number;
  /** gives the first connect up */
  signal?: AbortSignal;
  /** sees the session before it connects, to attach its listeners */
  onSession?: (session: AppSession) => void;
}

export class AppSession extends EventEmitter<AppEvents> {
  readonly #upkeep: Upkeep;
  readonly #invocations = new Invocations();
  readonly #windows = new Windows();
  readonly #requests: Requests;
  readonly #inspector = new Inspector();
  #losses = 0;
  #ending: Promise<{ ended: boolean }> | undefined;

  private constructor(dial: Dial, options: AppOptions) {
    super();
    this.#upkeep = new Upkeep({
      dial,
      init: initMessage(options),
      events: {
        onState: (state) => this.emit("state", state),
        onLine: (link, parsed, bytes) => this.#take(link, parsed, bytes),
        onSent: (message, line) => this.#inspect(message, "to-core", () => Buffer.byteLength(line) - 1),
        onLost: (reason) => this.#lost(reason),
      },
    });
    this.#requests = new Requests({
      ops: { ...headlessOps, ...options.ops },
      allowed: options.permissions ?? defaultPermissions,
      newContext: (clipboard) => this.#newContext(clipboard),
    });
  }

  /**
   * Connects, as soon as the guest can be reached, and waits for the core to be ready. Throws {@link BridgeError}
   * `not_ready` with the last failure as its cause, `aborted`.
   */
  static async open(dial: Dial, options: AppOptions = {}): Promise<AppSession> {
    const session = new AppSession(dial, options);
    options.onSession?.(session);
    await session.#upkeep.start({ timeoutMs: options.timeoutMs ?? defaultConnectMs, signal: options.signal });
    return session;
  }

  get state(): AppState {
    return this.#upkeep.state;
  }

  /** the open windows by id, oldest first */
  get windows(): ReadonlyMap<number, WindowParams> {
    return this.#windows.open;
  }

  /** Calls a handler of the core, as its oldest window. Throws {@link BridgeError}. */
  invoke(channel: string, ...args: unknown[]): Promise<unknown> {
    return this.call({ channel, args });
  }

  /** Calls a handler of the core. Throws {@link BridgeError}. */
  async call({ channel, args = [], win = this.#oldestWindow(), timeoutMs, signal }: CallOptions): Promise<unknown> {
    const link = this.#requireLink(channel);
    if (signal?.aborted) throw new BridgeError("aborted", `${channel}: the caller gave up`, { cause: signal.reason });
    const { id, result } = this.#invocations.begin(channel);
    const abort = () =>
      this.#invocations.abandon(
        id,
        new BridgeError("aborted", `${channel}: the caller gave up`, { cause: signal?.reason }),
      );
    signal?.addEventListener("abort", abort, { once: true });
    const timer = startLimit(timeoutMs, (seconds) =>
      this.#invocations.abandon(id, new BridgeError("timeout", `${channel}: no result within ${seconds} s`)),
    );
    try {
      void link.send({ t: "invoke", id, win, channel, args });
      return await result;
    } catch (error) {
      if (!(error instanceof EncodeError)) throw error;
      this.#invocations.abandon(id, asBridgeError(channel, error));
      return await result;
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener("abort", abort);
    }
  }

  /**
   * Tells the core something, as its oldest window. Resolves once it is handed to the system: await it before sending
   * much more. Throws {@link BridgeError}.
   */
  async send(channel: string, ...args: unknown[]): Promise<void> {
    await this.#sendOf(channel, { t: "send", win: this.#oldestWindow(), channel, args });
  }

  /** Tells the core of an event of a window: `focus`, `blur`, `resize`, … Throws {@link BridgeError}. */
  async windowEvent(win: number, event: string, data: unknown = {}): Promise<void> {
    await this.#sendOf(event, { t: "window", win, event, data });
  }

  /** Closes a window, as a user does, and tells the core. Throws `OpError` `no_window`. */
  closeWindow(win: number): void {
    this.#windows.remove(win);
    this.emit("window-closed", win);
    void this.#upkeep.link?.send({ t: "window", win, event: "closed", data: {} });
  }

  /**
   * Tells the core that the VM is about to stop, and gives it 3 s to save and end. Resolves with whether it ended by
   * itself; the session is closed then, and stopping the VM is the caller's.
   */
  async quit(): Promise<{ ended: boolean }> {
    const link = this.#requireLink("quit");
    void link.send({ t: "before-quit" });
    return this.#awaitEnd();
  }

  /** Closes the connection; by default an app quits over that. Pending calls fail with `closed`. */
  async close(): Promise<void> {
    const closed = this.#upkeep.close();
    this.#invocations.failAll((channel) => new BridgeError("closed", `${channel}: the session was closed`));
    this.#clearWindows();
    await closed;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  /** What operations may do, on behalf of the core that is connected now. */
  #newContext(clipboard: string): OpContext {
    const losses = this.#losses;
    return {
      clipboard,
      openWindow: (params) => {
        if (losses !== this.#losses || this.state === "closed")
          throw new OpError("disconnected", "the app that asked for the window is gone");
        const win = this.#windows.add(params);
        this.emit("window-opened", win, params);
        return win;
      },
      closeWindow: (win) => this.closeWindow(win),
      requireWindow: (win) => this.#windows.require(win),
    };
  }

  #lost(reason: string | undefined): void {
    this.#losses += 1;
    this.#inspector.forgetCalls();
    this.#requests.startOver();
    const because = reason === undefined ? "" : `: ${reason}`;
    this.#invocations.failAll(
      (channel) => new BridgeError("disconnected", `${channel}: the connection to the app was lost${because}`),
    );
    this.#clearWindows();
  }

  #clearWindows(): void {
    for (const win of this.#windows.clear()) this.emit("window-closed", win);
  }

  #take(link: Link, parsed: Exclude<Parsed<CoreMessage>, { kind: "empty" }>, bytes: number): void {
    switch (parsed.kind) {
      case "message":
        this.#dispatch(link, parsed.message, bytes);
        return;
      case "unknown":
        this.emit("problem", `message of unknown type ${JSON.stringify(parsed.t.slice(0, 100))} ignored`);
        return;
      case "malformed":
        this.emit("problem", `line dropped: ${parsed.reason}`);
        if (parsed.id === undefined) return;
        if (parsed.t === "request")
          void link.send({ t: "reply", id: parsed.id, error: { message: parsed.reason, code: "bad_message" } });
        if (parsed.t === "result")
          this.#invocations.settle(parsed.id, { error: { message: parsed.reason, code: "bad_message" } });
        return;
      default:
        parsed satisfies never;
    }
  }

  #dispatch(link: Link, message: CoreMessage, bytes: number): void {
    switch (message.t) {
      case "ready":
        this.#inspect(message, "from-core", () => bytes);
        if (!this.#upkeep.readyArrived()) this.emit("problem", "a second ready was ignored");
        return;
      case "request": {
        const refusal = this.#requests.denies(message.op) ? ({ refused: "denied" } as const) : {};
        this.#inspect(message, "from-core", () => bytes, refusal);
        void this.#answer(link, message);
        return;
      }
      case "result": {
        const channel = this.#invocations.settle(message.id, message);
        this.#inspect(message, "from-core", () => bytes, channel === undefined ? { refused: "dropped" } : { channel });
        if (channel === undefined) this.emit("problem", `result of invoke ${message.id} dropped: nobody waits for it`);
        return;
      }
      case "emit": {
        this.#inspect(message, "from-core", () => bytes);
        const { win, channel, args } = message;
        this.emit("emit", { win, channel, args });
        return;
      }
      default:
        message satisfies never;
    }
  }

  async #answer(link: Link, message: RequestMessage): Promise<void> {
    const outcome = await this.#requests.answer(message);
    if (outcome === undefined) {
      this.emit("problem", `request ${message.id} dropped: one with that id is still being worked on`);
      return;
    }
    try {
      void link.send({ t: "reply", id: message.id, ...outcome });
    } catch (error) {
      if (!(error instanceof EncodeError)) throw error;
      void link.send({ t: "reply", id: message.id, error: { message: error.message, code: error.code } });
    }
    if (message.op === "app.quit" && "result" in outcome) await this.#awaitEnd();
  }

  /** Waits for the core to end by itself, and closes the session in any case. */
  #awaitEnd(): Promise<{ ended: boolean }> {
    this.#ending ??= this.#end();
    return this.#ending;
  }

  async #end(): Promise<{ ended: boolean }> {
    const ended = await this.#upkeep.awaitEnd();
    this.emit("quit");
    await this.close();
    return { ended };
  }

  #inspect(
    message: BridgeMessage,
    direction: InspectedMessage["direction"],
    bytes: () => number,
    more: { refused?: InspectedMessage["refused"]; channel?: string } = {},
  ): void {
    if (this.listenerCount("message") === 0) return;
    this.emit("message", this.#inspector.inspect({ message, direction, bytes: bytes(), ...more }));
  }

  async #sendOf(subject: string, message: HostMessage): Promise<void> {
    const link = this.#requireLink(subject);
    try {
      await link.send(message);
    } catch (error) {
      throw error instanceof EncodeError ? asBridgeError(subject, error) : error;
    }
  }

  #requireLink(subject: string): Link {
    const { link, state } = this.#upkeep;
    if (link !== undefined && state === "ready") return link;
    if (state === "closed") throw new BridgeError("closed", `${subject}: the session is closed`);
    throw new BridgeError("disconnected", `${subject}: the app is not connected`);
  }

  #oldestWindow(): number {
    for (const win of this.#windows.open.keys()) return win;
    return 0;
  }
}

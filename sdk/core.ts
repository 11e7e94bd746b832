/**
 * The core end of the bridge: keeps the map of pending requests, runs the app's handlers off the reading loop, and tells
 * the rest of the SDK what the host says. Implements section 7 of the protocol's description, steps 1 to 10.
 */
import { EncodeError } from "#protocol/bridge/encode.ts";
import { errorBodyOf } from "#protocol/bridge/error-body.ts";
import type {
  HostMessage,
  InitMessage,
  InvokeMessage,
  Outcome,
  RequestMessage,
  SendMessage,
  WindowMessage,
} from "#protocol/bridge/messages.ts";
import { PlatformError } from "./error.ts";
import { type HostConnection, HostLink } from "./host-link.ts";
import { warn } from "./log.ts";

/**
 * - `start`: the app starts
 * - `reconnect`: a host has connected again, and has nothing of what the former one had
 * - `update`: the host says it once more on the same connection
 */
export type InitOccasion = "start" | "reconnect" | "update";

export interface CoreEvents {
  onInit(message: InitMessage, occasion: InitOccasion): void;
  /** A handler's result, or undefined where the channel has none. May throw, and may return a promise. */
  onInvoke(message: InvokeMessage): { readonly result: unknown } | undefined;
  onSend(message: SendMessage): void;
  onWindow(message: WindowMessage): void;
  onBeforeQuit(): void;
  /** the host is gone, and no newer connection has replaced it */
  onDisconnect(): void;
}

interface PendingRequest {
  readonly message: RequestMessage;
  resolve(result: unknown): void;
  reject(error: Error): void;
}

/**
 * - `waiting`: no host has said `init` yet; requests are kept for it
 * - `starting`: `init` has come, and the app's start-up runs; requests follow `ready`
 * - `ready`
 * - `disconnected`: the host went away; requests fail
 */
type CoreState = "waiting" | "starting" | "ready" | "disconnected";

export class Core {
  #state: CoreState = "waiting";
  #initialised = false;
  #nextRequestId = 1;
  readonly #requests = new Map<number, PendingRequest>();
  readonly #running = new Set<number>();
  readonly #events: CoreEvents;
  readonly #link: HostLink;

  constructor(events: CoreEvents) {
    this.#events = events;
    this.#link = new HostLink({
      onMessage: (connection, message) => this.#dispatch(connection, message),
      onMalformedInvoke: (connection, id, reason) =>
        this.#answer(connection, id, { error: { message: reason, code: "bad_message" } }),
      onMalformedReply: (id, reason) => this.#settle(id, { error: { message: reason, code: "bad_message" } }),
      onEnd: (replaced) => this.#ended(replaced),
    });
  }

  /** Takes the app's socket. Rejects when it cannot be taken. */
  listen(path: string): Promise<void> {
    return this.#link.listen(path);
  }

  close(): Promise<void> {
    return this.#link.close();
  }

  /**
   * Asks the platform. Rejects with {@link PlatformError}, or `EncodeError` for params that JSON cannot carry. `take`
   * sees the result before the message behind the reply is read, and its return value is what the promise resolves with.
   */
  request<T = unknown>(
    op: string,
    params: Readonly<Record<string, unknown>> = {},
    take: (result: unknown) => T = (result) => result as T,
  ): Promise<T> {
    if (this.#state === "disconnected")
      return Promise.reject(new PlatformError(`${op}: the host is not connected`, "disconnected"));
    const message: RequestMessage = { t: "request", id: this.#nextRequestId, op, params };
    this.#nextRequestId += 1;
    return new Promise((resolve, reject) => {
      const pending: PendingRequest = { message, resolve: (result) => resolve(take(result)), reject };
      if (this.#state === "ready") this.#sendRequest(pending);
      else this.#requests.set(message.id, pending);
    });
  }

  /**
   * Pushes to a window, or to every window where `win` is null. Resolves once the message is handed to the system;
   * without a host it is dropped. Throws `EncodeError` for arguments that JSON cannot carry.
   */
  emit(win: number | null, channel: string, args: readonly unknown[]): Promise<void> {
    return this.#link.connection?.send({ t: "emit", win, channel, args }) ?? Promise.resolve();
  }

  #dispatch(connection: HostConnection, message: HostMessage): void {
    switch (message.t) {
      case "init":
        this.#start(connection, message);
        return;
      case "reply":
        this.#settle(message.id, message);
        return;
      case "invoke":
        this.#invoke(connection, message);
        return;
      case "send":
        this.#events.onSend(message);
        return;
      case "window":
        this.#events.onWindow(message);
        return;
      case "before-quit":
        this.#events.onBeforeQuit();
        return;
      default:
        message satisfies never;
    }
  }

  #start(connection: HostConnection, message: InitMessage): void {
    if (this.#state === "starting" || this.#state === "ready") {
      this.#events.onInit(message, "update");
      if (this.#state === "ready") void connection.send({ t: "ready" });
      return;
    }
    const occasion = this.#initialised ? "reconnect" : "start";
    this.#initialised = true;
    this.#state = "starting";
    this.#events.onInit(message, occasion);
    // After what the start-up does at once, so that its handlers are there before the host may call them.
    setImmediate(() => {
      if (this.#link.connection !== connection || this.#state !== "starting") return;
      this.#state = "ready";
      void connection.send({ t: "ready" });
      for (const pending of [...this.#requests.values()]) this.#sendRequest(pending);
    });
  }

  #sendRequest(pending: PendingRequest): void {
    const { id } = pending.message;
    this.#requests.set(id, pending);
    try {
      void this.#link.connection?.send(pending.message);
    } catch (error) {
      this.#requests.delete(id);
      pending.reject(error as Error);
    }
  }

  #settle(id: number, outcome: Outcome): void {
    const pending = this.#requests.get(id);
    if (pending === undefined) {
      warn(`reply to request ${id} dropped: it is not waited for`);
      return;
    }
    this.#requests.delete(id);
    if ("error" in outcome)
      pending.reject(new PlatformError(`${pending.message.op}: ${outcome.error.message}`, outcome.error.code));
    else {
      try {
        pending.resolve(outcome.result);
      } catch (error) {
        pending.reject(error as Error);
      }
    }
  }

  #invoke(connection: HostConnection, message: InvokeMessage): void {
    const { id } = message;
    if (this.#running.has(id)) {
      warn(`invoke ${id} dropped: one with that id is still running`);
      return;
    }
    this.#running.add(id);
    queueMicrotask(() => void this.#run(connection, message));
  }

  async #run(connection: HostConnection, message: InvokeMessage): Promise<void> {
    let outcome: Outcome;
    try {
      const answer = this.#events.onInvoke(message);
      outcome =
        answer === undefined
          ? { error: { message: `no handler for channel ${JSON.stringify(message.channel)}`, code: "no_handler" } }
          : { result: await answer.result };
    } catch (error) {
      outcome = { error: errorBodyOf(error) };
    }
    // Ids start over with a new host, whose calls may bear the same ones.
    if (this.#link.connection !== connection) return;
    this.#running.delete(message.id);
    this.#answer(connection, message.id, outcome);
  }

  #answer(connection: HostConnection, id: number, outcome: Outcome): void {
    try {
      void connection.send({ t: "result", id, ...outcome });
    } catch (error) {
      if (!(error instanceof EncodeError)) throw error;
      void connection.send({ t: "result", id, error: { message: error.message, code: error.code } });
    }
  }

  #ended(replaced: boolean): void {
    this.#running.clear();
    // Requests that no host has got yet can wait for the newer one.
    if (this.#state === "ready" || !replaced) this.#failRequests();
    this.#state = replaced ? "waiting" : "disconnected";
    if (!replaced) this.#events.onDisconnect();
  }

  #failRequests(): void {
    const lost = [...this.#requests.values()];
    this.#requests.clear();
    for (const { message, reject } of lost)
      reject(new PlatformError(`${message.op}: the host went away before it answered`, "disconnected"));
  }
}

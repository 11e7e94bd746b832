/**
 * Keeps one connection to the core up: dials, sends `init`, waits for `ready`, and dials again after a loss. The one
 * place where the state of a session changes.
 */
import type { CoreMessage, HostMessage, InitMessage } from "#protocol/bridge/messages.ts";
import type { Parsed } from "#protocol/bridge/parse.ts";
import type { Connection } from "../../transport/connection.ts";
import { Backoff } from "./backoff.ts";
import { BridgeError } from "./error.ts";
import { Link } from "./link.ts";
import { startLimit } from "./time-limit.ts";

const readyMs = 30_000;
/** what an app has to save its state, and a core that asked to quit to end by itself */
const quitMs = 3_000;

/**
 * - `connecting`: nothing is connected; the next attempt is under way or waits for its time
 * - `starting`: `init` is sent, `ready` has not come
 * - `ready`: calls go through
 * - `quitting`: the core has been told, or has asked, to end; no reconnect
 * - `closed`: for good
 */
export type AppState = "connecting" | "starting" | "ready" | "quitting" | "closed";

export type Dial = (signal: AbortSignal) => Promise<Connection>;

interface UpkeepEvents {
  onState(state: AppState): void;
  onLine(link: Link, parsed: Exclude<Parsed<CoreMessage>, { kind: "empty" }>, bytes: number): void;
  onSent(message: HostMessage, line: string): void;
  /** the connection is gone, and not because the session was closed */
  onLost(reason: string | undefined): void;
}

export class Upkeep {
  #state: AppState = "connecting";
  #link: Link | undefined;
  #ended: Promise<void> = Promise.resolve();
  #readyAt: number | undefined;
  #readyTimer: NodeJS.Timeout | undefined;
  readonly #dial: Dial;
  readonly #init: InitMessage;
  readonly #events: UpkeepEvents;
  readonly #closing = new AbortController();

  constructor({ dial, init, events }: { dial: Dial; init: InitMessage; events: UpkeepEvents }) {
    this.#dial = dial;
    this.#init = init;
    this.#events = events;
  }

  get state(): AppState {
    return this.#state;
  }

  get link(): Link | undefined {
    return this.#link;
  }

  /** Connects and stays connected. Resolves when the core is ready for the first time; throws {@link BridgeError}. */
  async start({ timeoutMs, signal }: { timeoutMs: number; signal: AbortSignal | undefined }): Promise<void> {
    let failure: unknown;
    const firstReady = new Promise<void>((resolve, reject) => {
      const giveUp = () => {
        const text = signal?.aborted
          ? "the caller gave up waiting for the app"
          : `the app was not ready within ${timeoutMs / 1000} s`;
        const reason = failure instanceof Error ? `${text}: ${failure.message}` : text;
        reject(new BridgeError(signal?.aborted ? "aborted" : "not_ready", reason, { cause: failure }));
      };
      const timer = startLimit(timeoutMs, giveUp);
      signal?.addEventListener("abort", giveUp, { once: true });
      this.#whenReady = () => {
        clearTimeout(timer);
        signal?.removeEventListener("abort", giveUp);
        resolve();
      };
      this.#closing.signal.addEventListener("abort", () => {
        clearTimeout(timer);
        reject(new BridgeError("closed", "the session was closed before the app was ready"));
      });
      if (signal?.aborted) giveUp();
      void this.#keepConnected((error) => {
        failure = error;
        if (isFinal(error)) giveUp();
      });
    });
    try {
      await firstReady;
    } catch (error) {
      await this.close();
      throw error;
    }
  }

  #whenReady: () => void = () => {};

  /** The core has sent `ready`; false when it was not waited for. */
  readyArrived(): boolean {
    if (this.#state !== "starting") return false;
    clearTimeout(this.#readyTimer);
    this.#readyAt = performance.now();
    this.#setState("ready");
    this.#whenReady();
    return true;
  }

  /** Waits for the core to end by itself, 3 s at most, and closes in any case. */
  async awaitEnd(): Promise<boolean> {
    this.#setState("quitting");
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<boolean>((resolve) => {
      timer = setTimeout(() => resolve(false), quitMs);
    });
    const ended = await Promise.race([this.#ended.then(() => true), late]);
    clearTimeout(timer);
    return ended;
  }

  async close(): Promise<void> {
    if (this.#state === "closed") return;
    this.#setState("closed");
    this.#closing.abort();
    clearTimeout(this.#readyTimer);
    await this.#link?.finish();
  }

  async #keepConnected(onFailure: (failure: unknown) => void): Promise<void> {
    const backoff = new Backoff();
    while (this.#mayConnect()) {
      try {
        const connection = await this.#dial(this.#closing.signal);
        if (!this.#mayConnect()) {
          connection.socket.destroy();
          return;
        }
        const reason = await this.#serve(connection);
        onFailure(new BridgeError("disconnected", reason ?? "the core closed the connection"));
      } catch (failure) {
        onFailure(failure);
      }
      if (this.#readyAt !== undefined) backoff.lost(performance.now() - this.#readyAt);
      this.#readyAt = undefined;
      if (!this.#mayConnect()) return;
      this.#setState("connecting");
      await this.#pause(backoff.next());
    }
  }

  /** Runs one connection to its end. Resolves with the reason, where it is known. */
  async #serve(connection: Connection): Promise<string | undefined> {
    const reason = await new Promise<string | undefined>((resolve) => {
      const link: Link = new Link(connection, {
        onLine: (parsed, bytes) => this.#events.onLine(link, parsed, bytes),
        onSent: this.#events.onSent,
        onEnd: resolve,
      });
      this.#link = link;
      this.#ended = new Promise((ended) => connection.socket.once("close", () => ended()));
      this.#readyTimer = setTimeout(
        () => link.destroy(`the core did not send ready within ${readyMs / 1000} s`),
        readyMs,
      );
      this.#setState("starting");
      void link.send(this.#init);
    });
    clearTimeout(this.#readyTimer);
    this.#link = undefined;
    if (this.#state !== "closed") this.#events.onLost(reason);
    return reason;
  }

  #mayConnect(): boolean {
    return this.#state !== "closed" && this.#state !== "quitting";
  }

  #setState(state: AppState): void {
    if (this.#state === state || this.#state === "closed") return;
    if (this.#state === "quitting" && state !== "closed") return;
    this.#state = state;
    this.#events.onState(state);
  }

  #pause(milliseconds: number): Promise<void> {
    const { signal } = this.#closing;
    return new Promise((resolve) => {
      const done = () => {
        clearTimeout(timer);
        signal.removeEventListener("abort", done);
        resolve();
      };
      const timer = setTimeout(done, milliseconds);
      signal.addEventListener("abort", done);
    });
  }
}

/** A failure that no further attempt will change. */
function isFinal(failure: unknown): boolean {
  const code: unknown = failure instanceof Error ? Reflect.get(failure, "code") : undefined;
  return code === "unsupported" || code === "bad_target" || code === "no_such_vm";
}

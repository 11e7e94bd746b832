import { EventEmitter } from "node:events";
import type { AppIdentity } from "#protocol/bridge/messages.ts";
import type { Core } from "./core.ts";
import { describe, warn } from "./log.ts";

/** An event whose default a listener may prevent. */
export interface AppEvent {
  preventDefault(): void;
  readonly defaultPrevented: boolean;
}

/** The VM stops about 3 s after `before-quit`: what listeners have not saved by then is lost. */
const savingMs = 2_500;
const quitAnswerMs = 1_000;

/**
 * Electron's `app`. Events: `ready`; `window-all-closed` (quits unless there is a listener); `before-quit` and `will-quit`
 * (may be prevented; a promise that a listener returns is waited for, 2.5 s at most); `quit`; `disconnected`, when the
 * host has gone (quits unless it is prevented).
 */
export class App extends EventEmitter {
  readonly #core: Core;
  readonly #ready: Promise<void>;
  #setReady: () => void = () => {};
  #isReady = false;
  #quitting = false;
  #identity: AppIdentity = { id: "", name: "", version: "" };
  #dataDir: string;

  constructor({ core, dataDir }: { core: Core; dataDir: string }) {
    super();
    this.#core = core;
    this.#dataDir = dataDir;
    this.#ready = new Promise((resolve) => {
      this.#setReady = resolve;
    });
  }

  /** Resolves once the host has said which app this is; windows may be opened from then on. */
  whenReady(): Promise<void> {
    return this.#ready;
  }

  isReady(): boolean {
    return this.#isReady;
  }

  getName(): string {
    return this.#identity.name;
  }

  getVersion(): string {
    return this.#identity.version;
  }

  /** `userData`: the app's own directory. Throws for a name that is not known here. */
  getPath(name: "userData"): string {
    if (name !== "userData") throw new Error(`Failed to get '${String(name)}' path`);
    return this.#dataDir;
  }

  /** Quits unless a listener of `before-quit` or `will-quit` prevents it; the platform is told. */
  quit(): void {
    void this.#quit({ tellPlatform: true });
  }

  /** Ends at once. */
  exit(code = 0): void {
    process.exit(code);
  }

  /** @internal */
  initialise(identity: AppIdentity, dataDir: string, first: boolean): void {
    this.#identity = identity;
    this.#dataDir = dataDir;
    if (!first) return;
    this.#isReady = true;
    this.#setReady();
    // Not under the message's reader: a start-up that fails is an exception of the app, and ends it.
    process.nextTick(() => this.emit("ready"));
  }

  /** @internal the host will stop the VM */
  beforeQuit(): void {
    void this.#quit({ tellPlatform: false });
  }

  /** @internal */
  allWindowsClosed(): void {
    if (this.listenerCount("window-all-closed") > 0) this.emit("window-all-closed");
    else this.quit();
  }

  /** @internal */
  disconnected(): void {
    const event = createEvent();
    this.emit("disconnected", event);
    if (!event.defaultPrevented) void this.#quit({ tellPlatform: false });
  }

  async #quit({ tellPlatform }: { tellPlatform: boolean }): Promise<void> {
    if (this.#quitting) return;
    this.#quitting = true;
    for (const name of ["before-quit", "will-quit"]) {
      if (await this.#prevented(name)) {
        this.#quitting = false;
        return;
      }
    }
    if (tellPlatform) await within(quitAnswerMs, this.#core.request("app.quit"));
    this.emit("quit", createEvent(), 0);
    await within(quitAnswerMs, this.#core.close());
    // Output on a pipe is lost if the process ends before it is written.
    process.stdout.write("", () => process.stderr.write("", () => process.exit(0)));
  }

  async #prevented(name: string): Promise<boolean> {
    const event = createEvent();
    const saved: unknown[] = [];
    // Raw, so that a listener for once is gone after it was called.
    for (const listener of this.rawListeners(name)) {
      try {
        saved.push(listener.call(this, event));
      } catch (error) {
        warn(`a listener of ${name} failed: ${describe(error)}`);
      }
    }
    await within(savingMs, Promise.allSettled(saved));
    return event.defaultPrevented;
  }
}

function createEvent(): AppEvent {
  let prevented = false;
  return {
    preventDefault: () => {
      prevented = true;
    },
    get defaultPrevented() {
      return prevented;
    },
  };
}

/** Waits for a promise, whatever becomes of it, and not longer than that. */
async function within(milliseconds: number, promise: Promise<unknown>): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const limit = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, milliseconds);
  });
  await Promise.race([promise.catch((error: unknown) => warn(describe(error))), limit]);
  clearTimeout(timer);
}

import { EventEmitter } from "node:events";
import type { WindowMessage } from "#protocol/bridge/messages.ts";
import type { Core } from "./core.ts";
import { PlatformError } from "./error.ts";
import { describe, warn } from "./log.ts";
import { WebContents } from "./web-contents.ts";

export interface BrowserWindowOptions {
  /** in pixels */
  width?: number;
  /** in pixels */
  height?: number;
  title?: string;
  webPreferences?: { devTools?: boolean };
}

/** A window on the host. It comes to be with {@link BrowserWindow.loadFile}, which names the page. */
export interface BrowserWindow extends EventEmitter {
  /** id that the host gave the window; undefined until it has */
  readonly id: number | undefined;
  readonly webContents: WebContents;
  /** Opens the window with a page of the app. Rejects with `PlatformError` when the host refuses. */
  loadFile(entry: string): Promise<void>;
  setTitle(title: string): void;
  focus(): void;
  close(): void;
  isDestroyed(): boolean;
}

export interface BrowserWindowClass {
  new (options?: BrowserWindowOptions): BrowserWindow;
  getAllWindows(): BrowserWindow[];
  fromId(id: number): BrowserWindow | null;
  fromWebContents(contents: WebContents): BrowserWindow | null;
}

/** What the SDK itself needs of the windows. */
export interface Windows {
  readonly BrowserWindow: BrowserWindowClass;
  /** the page of a window of this app, or of one that it did not open */
  contentsOf(win: number): WebContents;
  /** takes what the host says of a window */
  handle(message: WindowMessage): void;
  /** opens every window again: the host that had them is gone */
  reopenAll(): void;
}

export function createWindows({ core, onAllClosed }: { core: Core; onAllClosed: () => void }): Windows {
  const open = new Set<CoreWindow>();
  /** ids of the host's windows that another page has replaced; their end is no news */
  const replaced = new Set<number>();

  class CoreWindow extends EventEmitter implements BrowserWindow {
    id: number | undefined;
    readonly webContents: WebContents;
    readonly #options: BrowserWindowOptions;
    #entry: string | undefined;
    #title: string | undefined;
    /** windows that the host has been asked for and has not given an id yet */
    #opening = 0;
    /** `close` was called before there was an id */
    #closesOnceOpen = false;
    #destroyed = false;

    constructor(options: BrowserWindowOptions = {}) {
      super();
      this.#options = options;
      this.#title = options.title;
      this.webContents = new WebContents(core, () => this.id);
      open.add(this);
    }

    static getAllWindows(): BrowserWindow[] {
      return [...open];
    }

    static fromId(id: number): BrowserWindow | null {
      return find((window) => window.id === id) ?? null;
    }

    static fromWebContents(contents: WebContents): BrowserWindow | null {
      return find((window) => window.webContents === contents) ?? null;
    }

    loadFile(entry: string): Promise<void> {
      if (this.#destroyed) throw new TypeError("Object has been destroyed");
      this.#entry = entry;
      const opened = this.open();
      // An author who does not wait for it should not lose the app over a refusal.
      opened.catch((error: unknown) => warn(`window not opened: ${describe(error)}`));
      return opened;
    }

    async open(): Promise<void> {
      if (this.#entry === undefined) return;
      const { width, height, webPreferences } = this.#options;
      const title = this.#title;
      const params = { entry: this.#entry, width, height, title, devTools: webPreferences?.devTools };
      this.#opening += 1;
      try {
        // At once: the message behind the reply may be about this window already.
        await core.request("window.create", params, (result) => {
          const win: unknown = Reflect.get(Object(result), "win");
          if (typeof win !== "number") throw new TypeError("the host gave the window no id");
          this.#opened(win, title);
        });
      } finally {
        this.#opening -= 1;
        if (this.#closesOnceOpen && this.#opening === 0 && this.id === undefined) end(this);
      }
    }

    async reopen(): Promise<void> {
      this.id = undefined;
      await this.open();
    }

    #opened(win: number, title: string | undefined): void {
      const former = this.#destroyed ? win : this.id;
      if (former !== undefined) {
        replaced.add(former);
        ask("window.close", { win: former });
      }
      if (this.#destroyed) return;
      this.id = win;
      this.webContents.flushEarly();
      if (this.#title !== title) this.#tell("window.setTitle", { title: this.#title });
      if (this.#closesOnceOpen) void this.#requestClose(win);
    }

    async #requestClose(win: number): Promise<void> {
      try {
        await core.request("window.close", { win });
      } catch (error) {
        // Without a host there is nothing left of the window.
        const isGone = error instanceof PlatformError && error.code === "disconnected" && !this.#destroyed;
        if (isGone) end(this);
        else warn(describe(error));
      }
    }

    setTitle(title: string): void {
      this.#title = title;
      this.#tell("window.setTitle", { title });
    }

    focus(): void {
      this.#tell("window.focus", {});
    }

    close(): void {
      if (this.#destroyed) throw new TypeError("Object has been destroyed");
      if (this.id !== undefined) void this.#requestClose(this.id);
      else if (this.#opening > 0) this.#closesOnceOpen = true;
      else end(this);
    }

    isDestroyed(): boolean {
      return this.#destroyed;
    }

    closed(): void {
      this.#destroyed = true;
      this.webContents.destroy();
      open.delete(this);
      this.emit("closed");
    }

    #tell(op: string, params: Record<string, unknown>): void {
      if (this.#destroyed) throw new TypeError("Object has been destroyed");
      if (this.id === undefined) return;
      ask(op, { win: this.id, ...params });
    }
  }

  const ask = (op: string, params: Record<string, unknown>): void => {
    core.request(op, params).catch((error: unknown) => warn(describe(error)));
  };

  const end = (window: CoreWindow): void => {
    try {
      window.closed();
    } finally {
      if (open.size === 0) onAllClosed();
    }
  };

  const find = (matches: (window: CoreWindow) => boolean): CoreWindow | undefined => [...open].find(matches);

  return {
    BrowserWindow: CoreWindow,
    contentsOf: (win) => find((window) => window.id === win)?.webContents ?? new WebContents(core, () => win),
    handle: ({ win, event, data }) => {
      const window = find((candidate) => candidate.id === win);
      if (window === undefined) {
        if (event === "closed" ? replaced.delete(win) : replaced.has(win)) return;
        warn(`${event} of window ${win} ignored: it is not open`);
        return;
      }
      if (event !== "closed") {
        window.emit(event, data);
        return;
      }
      end(window);
    },
    reopenAll: () => {
      replaced.clear();
      for (const window of open)
        window.reopen().catch((error: unknown) => warn(`window not opened again: ${describe(error)}`));
    },
  };
}

import { EventEmitter } from "node:events";
import type { WindowMessage } from "#protocol/bridge/messages.ts";
import type { Core } from "./core.ts";
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

  class CoreWindow extends EventEmitter implements BrowserWindow {
    id: number | undefined;
    readonly webContents: WebContents;
    readonly #options: BrowserWindowOptions;
    #entry: string | undefined;
    #title: string | undefined;
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
      this.#entry = entry;
      const opened = this.open();
      // An author who does not wait for it should not lose the app over a refusal.
      opened.catch((error: unknown) => warn(`window not opened: ${describe(error)}`));
      return opened;
    }

    async open(): Promise<void> {
      if (this.#entry === undefined) return;
      this.id = undefined;
      const { width, height, webPreferences } = this.#options;
      const params = {
        entry: this.#entry,
        width,
        height,
        title: this.#title,
        devTools: webPreferences?.devTools,
      };
      // At once: the message behind the reply may be about this window already.
      await core.request("window.create", params, (result) => {
        const win: unknown = Reflect.get(Object(result), "win");
        if (typeof win !== "number") throw new TypeError("the host gave the window no id");
        this.id = win;
        this.webContents.flushEarly();
      });
    }

    setTitle(title: string): void {
      this.#title = title;
      this.#tell("window.setTitle", { title });
    }

    focus(): void {
      this.#tell("window.focus", {});
    }

    close(): void {
      this.#tell("window.close", {});
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
      core.request(op, { win: this.id, ...params }).catch((error: unknown) => warn(describe(error)));
    }
  }

  const find = (matches: (window: CoreWindow) => boolean): CoreWindow | undefined => [...open].find(matches);

  return {
    BrowserWindow: CoreWindow,
    contentsOf: (win) => find((window) => window.id === win)?.webContents ?? new WebContents(core, () => win),
    handle: ({ win, event, data }) => {
      const window = find((candidate) => candidate.id === win);
      if (window === undefined) {
        warn(`${event} of window ${win} ignored: it is not open`);
        return;
      }
      if (event !== "closed") {
        window.emit(event, data);
        return;
      }
      window.closed();
      if (open.size === 0) onAllClosed();
    },
    reopenAll: () => {
      for (const window of open)
        window.open().catch((error: unknown) => warn(`window not opened again: ${describe(error)}`));
    },
  };
}

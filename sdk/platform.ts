/** Electron's modules for what the host's desktop offers. Each call is a request that the host may refuse. */
import { EventEmitter } from "node:events";
import type { BrowserWindow } from "./browser-window.ts";
import type { Core } from "./core.ts";
import { describe, warn } from "./log.ts";

interface FileFilter {
  name: string;
  extensions: string[];
}

export interface OpenDialogOptions {
  title?: string;
  defaultPath?: string;
  filters?: FileFilter[];
  properties?: ("openFile" | "openDirectory" | "multiSelections")[];
}

export interface OpenDialogResult {
  canceled: boolean;
  /** paths in the guest */
  filePaths: string[];
}

export interface SaveDialogOptions {
  title?: string;
  defaultPath?: string;
  filters?: FileFilter[];
}

export interface SaveDialogResult {
  canceled: boolean;
  /** path in the guest; empty when cancelled */
  filePath: string;
}

export interface MessageBoxOptions {
  message: string;
  detail?: string;
  title?: string;
  type?: "none" | "info" | "error" | "question" | "warning";
  buttons?: string[];
}

export interface MessageBoxResult {
  /** index of the button */
  response: number;
}

/** Takes Electron's optional first argument, the window that a dialog belongs to; the host places its dialogs itself. */
type WithWindow<Options> = [options?: Options] | [window: BrowserWindow, options?: Options];

function optionsOf<Options>(args: WithWindow<Options>): Partial<Options> {
  const options = args[0] instanceof EventEmitter ? args[1] : args[0];
  return (options ?? {}) as Partial<Options>;
}

export function createDialog(core: Core) {
  return {
    async showOpenDialog(...args: WithWindow<OpenDialogOptions>): Promise<OpenDialogResult> {
      const { properties = ["openFile"], title, defaultPath, filters } = optionsOf(args);
      const answer = (await core.request("dialog.open", {
        directory: properties.includes("openDirectory"),
        multiple: properties.includes("multiSelections"),
        title,
        defaultPath,
        filters,
      })) as { canceled?: boolean; paths?: string[] };
      return { canceled: answer.canceled ?? false, filePaths: answer.paths ?? [] };
    },

    async showSaveDialog(...args: WithWindow<SaveDialogOptions>): Promise<SaveDialogResult> {
      const answer = (await core.request("dialog.save", { ...optionsOf(args) })) as {
        canceled?: boolean;
        path?: string;
      };
      return { canceled: answer.canceled ?? false, filePath: answer.path ?? "" };
    },

    async showMessageBox(...args: WithWindow<MessageBoxOptions>): Promise<MessageBoxResult> {
      const answer = (await core.request("dialog.message", { ...optionsOf(args) })) as { response?: number };
      return { response: answer.response ?? 0 };
    },
  };
}

export function createClipboard(core: Core) {
  return {
    /** Electron's is synchronous; this one asks the host. */
    async readText(): Promise<string> {
      const { text } = (await core.request("clipboard.read")) as { text?: string };
      return text ?? "";
    },
    async writeText(text: string): Promise<void> {
      await core.request("clipboard.write", { text });
    },
  };
}

export function createShell(core: Core) {
  return {
    /** http, https and mailto only. */
    async openExternal(url: string): Promise<void> {
      await core.request("shell.openExternal", { url });
    },
  };
}

export interface NotificationOptions {
  title: string;
  body: string;
}

export interface Notification {
  show(): void;
}

export function createNotification(core: Core): new (options: NotificationOptions) => Notification {
  return class {
    readonly #options: NotificationOptions;

    constructor({ title, body }: NotificationOptions) {
      this.#options = { title, body };
    }

    show(): void {
      core
        .request("notification.show", { ...this.#options })
        .catch((error: unknown) => warn(`notification not shown: ${describe(error)}`));
    }
  };
}

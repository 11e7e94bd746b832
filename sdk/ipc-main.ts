import { EventEmitter } from "node:events";
import type { WebContents } from "./web-contents.ts";

/** Where a call or a message came from. */
export interface IpcMainEvent {
  /** the page that sent it */
  readonly sender: WebContents;
  /** Pushes back to that page. */
  reply(channel: string, ...args: unknown[]): void;
}

export type IpcHandler = (event: IpcMainEvent, ...args: never[]) => unknown;

/** Electron's `ipcMain`: handlers for `invoke`, listeners (`on`, `once`, …) for `send`. */
export class IpcMain extends EventEmitter {
  readonly #handlers = new Map<string, IpcHandler>();

  /** Throws when the channel has a handler already. */
  handle(channel: string, handler: IpcHandler): void {
    if (this.#handlers.has(channel)) throw new Error(`Attempted to register a second handler for '${channel}'`);
    this.#handlers.set(channel, handler);
  }

  handleOnce(channel: string, handler: IpcHandler): void {
    this.handle(channel, (event, ...args) => {
      this.removeHandler(channel);
      return handler(event, ...args);
    });
  }

  removeHandler(channel: string): void {
    this.#handlers.delete(channel);
  }

  /** @internal */
  handlerOf(channel: string): IpcHandler | undefined {
    return this.#handlers.get(channel);
  }
}

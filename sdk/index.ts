/**
 * The core side of the app bridge for authors of apps, in Electron's shape: an Electron main process ports by changing
 * its import. No dependency; runs on Bun and Node inside the guest.
 *
 * Importing it takes the app's socket, `$VMAPP_SOCKET`, once the importing module has run, so that handlers registered
 * there are in place before the host is heard.
 */
import { createSdk } from "./create.ts";

const socketPath = process.env.VMAPP_SOCKET ?? "/run/vmapp/app.sock";

/** path in the guest of each folder that the user shares, by name; null where none is given yet. Filled by `init`. */
export const folders: Record<string, string | null> = {};

/** the app's own directory */
export let dataDir: string = process.env.VMAPP_DATA ?? "/data";

const sdk = createSdk({
  dataDir,
  onInit: (message) => {
    for (const name of Object.keys(folders)) delete folders[name];
    Object.assign(folders, message.folders);
    if (message.data !== "") dataDir = message.data;
  },
});

export const { app, ipcMain, BrowserWindow, dialog, clipboard, shell, Notification } = sdk;
export type BrowserWindow = import("./browser-window.ts").BrowserWindow;

/** Pushes to every window at once. */
export function broadcast(channel: string, ...args: unknown[]): Promise<void> {
  return sdk.core.emit(null, channel, args);
}

export type { AppEvent } from "./app.ts";
export type { BrowserWindowOptions } from "./browser-window.ts";
export { PlatformError } from "./error.ts";
export type { IpcHandler, IpcMainEvent } from "./ipc-main.ts";
export type {
  MessageBoxOptions,
  MessageBoxResult,
  NotificationOptions,
  OpenDialogOptions,
  OpenDialogResult,
  SaveDialogOptions,
  SaveDialogResult,
} from "./platform.ts";
export type { WebContents } from "./web-contents.ts";

setImmediate(() => {
  sdk.core.listen(socketPath).catch((error: unknown) => {
    console.error(
      `vmapp-sdk: cannot listen on ${socketPath}: ${error instanceof Error ? error.message : String(error)}`,
    );
    process.exit(1);
  });
});

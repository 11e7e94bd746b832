/** Puts the parts of the SDK together. */
import type { InitMessage } from "#protocol/bridge/messages.ts";
import { App } from "./app.ts";
import { createWindows } from "./browser-window.ts";
import { Core } from "./core.ts";
import { IpcMain, type IpcMainEvent } from "./ipc-main.ts";
import { createClipboard, createDialog, createNotification, createShell } from "./platform.ts";
import type { WebContents } from "./web-contents.ts";

export function createSdk({ dataDir, onInit }: { dataDir: string; onInit: (message: InitMessage) => void }) {
  const ipcMain = new IpcMain();
  const core: Core = new Core({
    onInit: (message, occasion) => {
      onInit(message);
      app.initialise(message.app, message.data, occasion === "start");
      if (occasion === "reconnect") windows.reopenAll();
    },
    onInvoke: ({ channel, win, args }) => {
      const handler = ipcMain.handlerOf(channel);
      if (handler === undefined) return undefined;
      return { result: handler(eventFrom(windows.contentsOf(win)), ...(args as never[])) };
    },
    onSend: ({ channel, win, args }) => {
      ipcMain.emit(channel, eventFrom(windows.contentsOf(win)), ...args);
    },
    onWindow: (message) => windows.handle(message),
    onBeforeQuit: () => app.beforeQuit(),
    onDisconnect: () => app.disconnected(),
  });
  const app = new App({ core, dataDir });
  const windows = createWindows({ core, onAllClosed: () => app.allWindowsClosed() });
  return {
    core,
    app,
    ipcMain,
    BrowserWindow: windows.BrowserWindow,
    dialog: createDialog(core),
    clipboard: createClipboard(core),
    shell: createShell(core),
    Notification: createNotification(core),
  };
}

function eventFrom(sender: WebContents): IpcMainEvent {
  return {
    sender,
    reply: (channel, ...args) => {
      void sender.send(channel, ...args);
    },
  };
}

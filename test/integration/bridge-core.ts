/** An app core over the SDK with one channel for each behaviour that the tests ask for. */
import { writeFileSync } from "node:fs";
import { app, BrowserWindow, broadcast, clipboard, dataDir, dialog, folders, ipcMain } from "#sdk/index.ts";

const stays = process.env.CORE_STAYS === "1";
const savePath = process.env.CORE_SAVE_PATH;
let win: BrowserWindow | undefined;

app.whenReady().then(() => {
  if (process.env.CORE_WINDOW !== "1") return;
  win = new BrowserWindow({ width: 980, height: 660, title: "Core" });
  if (process.env.CORE_CLOSED_FAILS === "1") {
    win.on("closed", () => {
      throw new Error("the listener of closed failed");
    });
  }
  win.on("resize", (data) => void win?.webContents.send("resized", data));
  void win.loadFile("index.html");
});

if (process.env.CORE_START_FAILS === "1") {
  app.on("ready", () => {
    throw new Error("the start-up failed");
  });
}

if (process.env.CORE_QUITS_LATER === "1") {
  app.once("before-quit", (event) => {
    event.preventDefault();
    setTimeout(() => app.quit(), 50);
  });
}

app.on("before-quit", async () => {
  if (savePath === undefined) return;
  await new Promise((resolve) => setTimeout(resolve, 300));
  writeFileSync(savePath, "saved");
});

if (stays) app.on("disconnected", (event) => event.preventDefault());

const cycle: { self?: unknown } = {};
cycle.self = cycle;

ipcMain.handle("echo", (_event, ...args: unknown[]) => args);
ipcMain.handle("state", () => ({ folders, dataDir, name: app.getName(), version: app.getVersion() }));
ipcMain.handle("slow", (_event, milliseconds: number) => sleep(milliseconds).then(() => milliseconds));
ipcMain.handle("throw", () => {
  throw Object.assign(new Error("the handler failed"), { code: "E_TEST" });
});
ipcMain.handle("throw-text", () => Promise.reject("just text"));
ipcMain.handle("throw-shaped", () => Promise.reject({ message: "shaped like an error", code: "E_SHAPE" }));
ipcMain.handle("throw-bare", () => Promise.reject(Object.create(null)));
ipcMain.handle("throw-no-message", () => Promise.reject(Object.assign(new Error("x"), { message: undefined })));
ipcMain.handle("window", (_event, ...steps: ("load" | "title" | "close")[]) => {
  const window = new BrowserWindow({ title: "First" });
  for (const step of steps) {
    if (step === "load") void window.loadFile("other.html");
    if (step === "title") window.setTitle("Second");
    if (step === "close") window.close();
  }
  return null;
});
ipcMain.on("close-when-alone", () => {
  app.once("disconnected", () => setTimeout(() => win?.close(), 10));
});
ipcMain.handle("navigate", async () => {
  await win?.loadFile("second.html");
  return win?.id ?? null;
});
ipcMain.handle("undefined", () => undefined);
ipcMain.handle("cycle", () => cycle);
ipcMain.handle("bigint", () => 1n);
ipcMain.handle("blob", (_event, count: number) => "b".repeat(count));
ipcMain.handle("burst", async (event, count: number) => {
  for (let index = 0; index < count; index += 1) {
    const sent = event.sender.send("tick", index);
    if (index % 1000 === 999) await sent;
  }
  return count;
});
ipcMain.handle("pick", (_event, multiple: boolean) =>
  dialog.showOpenDialog({ properties: multiple ? ["openFile", "multiSelections"] : ["openFile"] }),
);
ipcMain.handle("clipboard", () => clipboard.readText());
ipcMain.handle("denied", () => dialog.showMessageBox({ message: "hello" }));
ipcMain.handle("die", () => process.exit(7));
ipcMain.handle("quit", () => {
  setTimeout(() => app.quit(), 10);
  return true;
});
ipcMain.on("note", (event, text: string) => event.reply("noted", text));
ipcMain.on("broken", () => {
  throw new Error("the listener failed");
});
ipcMain.on("to-all", (_event, text: string) => void broadcast("all", text));

function sleep(milliseconds: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, milliseconds));
}

/** Notes: lists, reads, writes and watches the Markdown files of a folder that the user shares with the app. */
import { watch } from "node:fs";
import { copyFile, readdir, readFile, rename, stat, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { app, BrowserWindow, dialog, folders, ipcMain } from "#sdk/index.ts";

/** changes that come so close together are told at once */
const settleMs = 100;

let win: BrowserWindow | undefined;

app.whenReady().then(() => {
  win = new BrowserWindow({ width: 980, height: 660, title: "Notes", webPreferences: { devTools: false } });
  void win.loadFile("index.html");
  watchNotes();
});

// The host may come back; the notes stay where they are.
app.on("disconnected", (event) => event.preventDefault());

ipcMain.handle("notes:list", async () => {
  const names = (await readdir(notesFolder())).filter(isNote).sort();
  return Promise.all(names.map(async (name) => ({ name, size: (await stat(pathOf(name))).size })));
});

ipcMain.handle("notes:read", (_event, name: string) => readFile(pathOf(name), "utf8"));

ipcMain.handle("notes:write", async (_event, name: string, text: string) => {
  const target = pathOf(name);
  await writeFile(`${target}.partial`, text);
  await rename(`${target}.partial`, target);
  return { name, size: Buffer.byteLength(text) };
});

/** Lets the user pick files, and copies them into the folder. */
ipcMain.on("notes:import", async () => {
  try {
    const { canceled, filePaths } = await dialog.showOpenDialog({ properties: ["openFile"] });
    if (canceled) return;
    for (const path of filePaths) await copyFile(path, join(notesFolder(), `${basename(path, ".txt")}.md`));
  } catch (error) {
    console.error(`nothing imported: ${error instanceof Error ? error.message : String(error)}`);
  }
});

function notesFolder(): string {
  const folder = folders.notes;
  if (folder === undefined || folder === null) throw new Error("no folder for notes is shared");
  return folder;
}

function isNote(name: string): boolean {
  return name.endsWith(".md");
}

/** Throws for a name that is more than a name. */
function pathOf(name: string): string {
  if (typeof name !== "string" || name !== basename(name) || !isNote(name))
    throw new Error(`${JSON.stringify(name)} is not the name of a note`);
  return join(notesFolder(), name);
}

function watchNotes(): void {
  const changed = new Set<string>();
  let timer: NodeJS.Timeout | undefined;
  const tell = () => {
    timer = undefined;
    const names = [...changed].sort();
    changed.clear();
    if (win !== undefined && !win.isDestroyed()) void win.webContents.send("notes:changed", names);
  };
  try {
    watch(notesFolder(), (_event, name) => {
      if (name === null || !isNote(name)) return;
      changed.add(name);
      if (timer === undefined) timer = setTimeout(tell, settleMs);
    });
  } catch (error) {
    console.error(`the notes are not watched: ${error instanceof Error ? error.message : String(error)}`);
  }
}

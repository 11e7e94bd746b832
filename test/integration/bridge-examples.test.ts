import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import { type ChildProcess, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { AppSession } from "#host/clients/bridge/session.ts";
import { dial } from "#host/transport/dial.ts";
import { buildExamples } from "../../examples/build.ts";
import { type CoreProcess, startCore } from "./bridge-core-process.ts";
import { type Forwarder, startForwarder } from "./bridge-forwarder.ts";
import { runNotesSession } from "./bridge-notes-session.ts";

let built: string;
let forwarder: Forwarder;
beforeAll(async () => {
  built = mkdtempSync(join(tmpdir(), "vmapp-examples-"));
  buildExamples(built);
  forwarder = await startForwarder();
});
afterAll(async () => {
  await forwarder.stop();
  rmSync(built, { recursive: true, force: true });
});

const apps: { child: ChildProcess; ended: Promise<number | string> }[] = [];
const cores: CoreProcess[] = [];
afterEach(async () => {
  for (const { child, ended } of apps.splice(0)) {
    child.kill("SIGKILL");
    await ended;
  }
  for (const core of cores.splice(0)) await core.stop();
});

/** Starts an app on the forwarder's app socket. */
function startApp(...[program, ...args]: [string, ...string[]]): { ended: Promise<number | string> } {
  const child = spawn(program, args, {
    env: { ...process.env, VMAPP_SOCKET: forwarder.appPath },
    stdio: ["ignore", "inherit", "inherit"],
  });
  const ended = new Promise<number | string>((resolve) =>
    child.once("exit", (code, signal) => resolve(signal ?? code ?? -1)),
  );
  apps.push({ child, ended });
  return { ended };
}

const dialForwarder = (signal: AbortSignal) =>
  dial({ target: { kind: "unix", directory: dirname(forwarder.hostPath) }, port: 1024, signal });

describe("the examples behind the forwarder", () => {
  test("the session in the protocol's description runs with the notes app, message for message", async () => {
    const folder = mkdtempSync(join(tmpdir(), "vmapp-notes-"));
    try {
      mkdirSync(join(folder, "notes"));
      writeFileSync(join(folder, "notes/alpha.md"), "a".repeat(120));
      writeFileSync(join(folder, "ideas.txt"), "an idea");
      const app = startApp(process.execPath, join(built, "notes/app.js"));
      await runNotesSession({
        dial: dialForwarder,
        folder: join(folder, "notes"),
        picked: join(folder, "ideas.txt"),
        writeNote: async (name, text) => writeFileSync(join(folder, "notes", name), text),
        readNote: async (name) => readFileSync(join(folder, "notes", name), "utf8"),
      });
      expect(await app.ended).toBe(0);
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  });

  test("notes: a name that leads out of the folder is refused", async () => {
    const folder = mkdtempSync(join(tmpdir(), "vmapp-notes-"));
    try {
      startApp(process.execPath, join(built, "notes/app.js"));
      await using session = await AppSession.open(dialForwarder, { folders: { notes: folder } });
      for (const name of ["../x.md", "/etc/passwd", "a/b.md", "x.txt", ""])
        await expect(session.invoke("notes:read", name)).rejects.toThrow("is not the name of a note");
      expect(await session.invoke("notes:write", "x.md", "text")).toEqual({ name: "x.md", size: 4 });
      expect(await session.invoke("notes:read", "x.md")).toBe("text");
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  });

  test("an app that comes 2 s after the host is reached, and one that dies in mid-call is reached again", async () => {
    const opening = AppSession.open(dialForwarder);
    await new Promise((resolve) => setTimeout(resolve, 2000));
    const first = startApp(process.execPath, new URL("./bridge-core.ts", import.meta.url).pathname);
    await using session = await opening;
    await expect(session.invoke("die")).rejects.toMatchObject({ code: "disconnected" });
    expect(await first.ended).toBe(7);
    startApp(process.execPath, new URL("./bridge-core.ts", import.meta.url).pathname);
    if (session.state !== "ready") {
      await new Promise<void>((resolve) => session.on("state", (state) => state === "ready" && resolve()));
    }
    expect(await session.invoke("echo", 1)).toEqual([1]);
  }, 20_000);

  test("hasher, in C: handlers, errors, escapes, windows and quitting", async () => {
    const app = startApp(join(built, "hasher/hasher"));
    const session = await AppSession.open(dialForwarder);
    expect(await session.invoke("hasher:crc32", "123456789")).toBe("cbf43926");
    const text = 'quote " slash \\ newline \n € 😀 \u0001';
    const crc = Bun.hash.crc32(text).toString(16).padStart(8, "0");
    expect(await session.invoke("hasher:crc32", text)).toBe(crc);
    expect(await session.invoke("hasher:crc32", "x".repeat(1_000_000))).toBe(
      Bun.hash.crc32("x".repeat(1_000_000)).toString(16).padStart(8, "0"),
    );
    await expect(session.invoke("nowhere")).rejects.toThrow("no handler for channel nowhere");
    await expect(session.invoke("hasher:crc32", 7)).rejects.toThrow("wants a text");
    expect(session.windows.get(1)).toEqual({ entry: "index.html", title: "Hasher" });
    const quit = new Promise<void>((resolve) => session.once("quit", () => resolve()));
    session.closeWindow(1);
    await quit;
    expect(await app.ended).toBe(0);
  });

  test("hasher, in C: a newer connection replaces the older, bad lines are ignored, the host's end is its own", async () => {
    const core = await startCore({ command: [join(built, "hasher/hasher")], directory: made("run") });
    cores.push(core);
    const older = await core.connect();
    await older.start();
    const newer = await core.connect();
    await older.ended;
    await newer.start();
    newer.raw('nonsense\n{"t":"stream"}\n[]\n{"t":"invoke","id":1,"win":1,"channel":"hasher:crc32","args":["a"]}\n');
    expect(await newer.next(({ t }) => t === "result")).toEqual({ t: "result", id: 1, result: "e8b7be43" });
    newer.close();
    expect(await core.ended).toBe(0);
  });
});

/** A directory for a core that makes none itself. */
function made(name: string): string {
  const directory = mkdtempSync(join(tmpdir(), "vmapp-core-"));
  mkdirSync(join(directory, name));
  return directory;
}

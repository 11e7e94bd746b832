/**
 * The session in the protocol's description, driven between our host end and the notes app. The same run serves over
 * Unix sockets here and in a VM.
 */
import { expect } from "bun:test";
import { AppSession } from "#host/clients/bridge/session.ts";
import type { Dial } from "#host/clients/bridge/upkeep.ts";
import type { Connection } from "#host/transport/connection.ts";
import { LineDecoder } from "#protocol/bridge/lines.ts";

/** Where the app's files are, on this side and on the app's. */
export interface NotesPlaces {
  dial: Dial;
  /** path of the folder as the app sees it */
  folder: string;
  /** path of a text that the user picks, as the app sees it */
  picked: string;
  /** writes a note from outside the app */
  writeNote(name: string, text: string): Promise<void>;
  readNote(name: string): Promise<string>;
}

export async function runNotesSession(places: NotesPlaces): Promise<void> {
  const wire: string[] = [];
  const session = await AppSession.open((signal) => places.dial(signal).then((connection) => tap(connection, wire)), {
    app: { id: "dev.vmapp.notes", name: "Notes", version: "1.0.0" },
    platform: { os: "linux", arch: "arm64" },
    folders: { notes: places.folder, export: null },
    data: "/data",
    ops: { "dialog.open": () => ({ canceled: false, paths: [places.picked] }) },
  });
  const windowOpened = new Promise<void>((resolve) => {
    if (session.windows.size > 0) resolve();
    else session.once("window-opened", () => resolve());
  });
  await windowOpened;
  expect(await session.invoke("notes:list")).toEqual([{ name: "alpha.md", size: 120 }]);

  const changed = new Promise((resolve) => session.once("emit", resolve));
  await places.writeNote("alpha.md", "b".repeat(121));
  expect(await changed).toEqual({ win: 1, channel: "notes:changed", args: [["alpha.md"]] });

  const imported = new Promise((resolve) => session.once("emit", resolve));
  await session.send("notes:import");
  expect(await imported).toEqual({ win: 1, channel: "notes:changed", args: [["ideas.md"]] });
  expect(await session.invoke("notes:read", "ideas.md")).toBe(await places.readNote("ideas.md"));

  const quit = new Promise<void>((resolve) => session.once("quit", () => resolve()));
  session.closeWindow(1);
  await quit;
  expect(wire).toEqual([
    `> {"t":"init","app":{"id":"dev.vmapp.notes","name":"Notes","version":"1.0.0"},"platform":{"os":"linux","arch":"arm64"},"folders":{"notes":${JSON.stringify(places.folder)},"export":null},"data":"/data"}`,
    '< {"t":"ready"}',
    '< {"t":"request","id":1,"op":"window.create","params":{"entry":"index.html","width":980,"height":660,"title":"Notes","devTools":false}}',
    '> {"t":"reply","id":1,"result":{"win":1}}',
    '> {"t":"invoke","id":1,"win":1,"channel":"notes:list","args":[]}',
    '< {"t":"result","id":1,"result":[{"name":"alpha.md","size":120}]}',
    '< {"t":"emit","win":1,"channel":"notes:changed","args":[["alpha.md"]]}',
    '> {"t":"send","win":1,"channel":"notes:import","args":[]}',
    '< {"t":"request","id":2,"op":"dialog.open","params":{"directory":false,"multiple":false}}',
    `> {"t":"reply","id":2,"result":{"canceled":false,"paths":[${JSON.stringify(places.picked)}]}}`,
    '< {"t":"emit","win":1,"channel":"notes:changed","args":[["ideas.md"]]}',
    '> {"t":"invoke","id":2,"win":1,"channel":"notes:read","args":["ideas.md"]}',
    expect.stringContaining('< {"t":"result","id":2,"result":'),
    '> {"t":"window","win":1,"event":"closed","data":{}}',
    '< {"t":"request","id":3,"op":"app.quit","params":{}}',
    '> {"t":"reply","id":3,"result":null}',
  ]);
}

/** Writes down every line that passes, `>` to the core and `<` from it. */
function tap(connection: Connection, wire: string[]): Connection {
  const note = (mark: string) => {
    const decoder = new LineDecoder();
    return (chunk: Uint8Array) => {
      decoder.push(chunk.slice());
      for (let line = decoder.next(); line !== undefined; line = decoder.next())
        wire.push(`${mark} ${Buffer.from(line).toString()}`);
    };
  };
  const [sent, heard] = [note(">"), note("<")];
  const { socket } = connection;
  socket.on("data", heard);
  const write = socket.write.bind(socket) as (bytes: Uint8Array, done?: () => void) => boolean;
  socket.write = ((bytes: Uint8Array, done?: () => void) => {
    sent(bytes);
    return write(bytes, done);
  }) as typeof socket.write;
  return connection;
}

import { expect, test } from "bun:test";
import { execFileSync } from "node:child_process";
import { createHash, randomBytes } from "node:crypto";
import {
  chmodSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import type { TransferProgress } from "#host/clients/control/transfer/progress.ts";
import { GuestFiles } from "#host/files.ts";
import type { Connection } from "#host/transport/connection.ts";
import { dial } from "#host/transport/dial.ts";
import { ports } from "#protocol/ports.ts";
import { Daemon } from "../control/daemon.ts";
import { frame } from "../control/raw-peer.ts";
import { StockDaemon } from "../control/stock-daemon.ts";
import { temporaryFolder } from "../temporary-folder.ts";

const local = temporaryFolder();

const filesOf = (daemon: Daemon): GuestFiles =>
  new GuestFiles(() => dial({ target: daemon.target, port: ports.control }));
const sha256 = (path: string): string => createHash("sha256").update(readFileSync(path)).digest("hex");

test("a file keeps its content, mode and modification time on the way in and out", async () => {
  await using daemon = await Daemon.start();
  using files = filesOf(daemon);
  const source = join(local, "tool");
  writeFileSync(source, randomBytes(3_000_001));
  chmodSync(source, 0o750);
  utimesSync(source, 1_500_000_000, 1_500_000_000.5);
  await files.put(source, join(daemon.root, "deep/er/tool"));
  const inside = statSync(join(daemon.root, "deep/er/tool"));
  expect(inside.mode & 0o777).toBe(0o750);
  expect(inside.mtimeMs).toBe(1_500_000_000_500);
  const back = join(local, "back");
  await files.get(join(daemon.root, "deep/er/tool"), back);
  expect(sha256(back)).toBe(sha256(source));
  expect(statSync(back).mode & 0o777).toBe(0o750);
  expect(statSync(back).mtimeMs).toBe(1_500_000_000_500);
  expect(readdirSync(join(daemon.root, "deep/er"))).toEqual(["tool"]);
});

test("a folder is copied with all that is in it, and links to folders are named as left out", async () => {
  await using daemon = await Daemon.start();
  using files = filesOf(daemon);
  const source = join(local, "tree");
  mkdirSync(join(source, "a/b"), { recursive: true });
  mkdirSync(join(source, "empty"));
  writeFileSync(join(source, "a/b/one"), "1");
  writeFileSync(join(source, "two"), "");
  symlinkSync("two", join(source, "link"));
  symlinkSync("a", join(source, "folderlink"));
  const remote = join(daemon.root, "tree");
  expect(await files.put(source, remote)).toEqual({ skipped: ["folderlink"], notUtf8: 0 });
  expect(readdirSync(remote).sort()).toEqual(["a", "empty", "link", "two"]);
  const back = join(local, "tree-back");
  const seen: number[] = [];
  await files.get(remote, back, { onProgress: ({ files: done }) => seen.push(done) });
  expect(readFileSync(join(back, "a/b/one"), "utf8")).toBe("1");
  expect(readdirSync(back).sort()).toEqual(["a", "empty", "link", "two"]);
  expect(seen.at(-1)).toBe(3);
});

test("a download that was cut for good is continued by the next one, and begun anew when the file has changed", async () => {
  await using daemon = await Daemon.start();
  const content = randomBytes(8 * 1024 * 1024);
  const remote = join(daemon.root, "big");
  const into = join(local, "resumed");
  mkdirSync(into);
  const cutShort = async (): Promise<void> => {
    let dials = 0;
    using files = new GuestFiles(async () => {
      const connection = await dial({ target: daemon.target, port: ports.control });
      const limit = dials++ === 0 ? 4 * 1024 * 1024 : 0;
      let received = 0;
      connection.socket.on("data", (chunk: Buffer) => {
        received += chunk.length;
        if (received > limit) connection.socket.destroy();
      });
      connection.socket.pause();
      return connection;
    });
    await expect(files.get(remote, join(into, "big"))).rejects.toMatchObject({ code: "closed" });
  };
  using files = filesOf(daemon);
  for (const change of [false, true]) {
    writeFileSync(remote, content);
    utimesSync(remote, 1_600_000_000, 1_600_000_000);
    await cutShort();
    const [part] = readdirSync(into);
    expect(part).toMatch(/\.part$/);
    const had = statSync(join(into, part ?? "")).size;
    expect(had).toBeGreaterThan(1024 * 1024);
    if (change) writeFileSync(remote, content.reverse());
    const steps: number[] = [];
    await files.get(remote, join(into, "big"), { onProgress: ({ bytes }) => steps.push(bytes) });
    expect(steps[0] === had).toBe(!change);
    expect(readFileSync(join(into, "big")).equals(content)).toBe(true);
    expect(readdirSync(into)).toEqual(["big"]);
    for (const name of readdirSync(into)) rmSync(join(into, name));
  }
}, 60_000);

test("a folder of the guest is copied although it holds links to nowhere and to devices, which are named as left out", async () => {
  await using daemon = await Daemon.start();
  using files = filesOf(daemon);
  const remote = join(daemon.root, "links");
  mkdirSync(remote);
  writeFileSync(join(remote, "file"), "12345");
  symlinkSync("file", join(remote, "link"));
  symlinkSync("nowhere", join(remote, "nowhere-link"));
  symlinkSync("circle", join(remote, "circle"));
  symlinkSync("/dev/null", join(remote, "device"));
  const back = join(local, "links-back");
  const seen: TransferProgress[] = [];
  const { skipped } = await files.get(remote, back, { onProgress: (progress) => seen.push(progress) });
  expect([...skipped].sort()).toEqual(["circle", "device", "nowhere-link"]);
  expect(readdirSync(back).sort()).toEqual(["file", "link"]);
  expect(seen.at(-1)).toEqual({ bytes: 10, totalBytes: 10, files: 2, totalFiles: 2 });
});

test("a link to nowhere in a stock daemon's folder is left out too, though it does not tell where its links lead", async () => {
  await using daemon = await new StockDaemon({
    answer: (peer, request) => {
      if (request.t !== "file_list" || request.path === "/") return false;
      const entry = { link_target_dir: false, size: 7, perm: "755", mtime: 1 };
      const entries = ["link", "nowhere"].map((name) => ({ name, type: "link", ...entry }));
      peer.sendBytes(frame({ v: 1, t: "ok", id: request.id, entries }));
      return true;
    },
  }).listen();
  daemon.files.set("/data/link", Buffer.from("content"));
  using files = new GuestFiles(daemon.dial);
  const back = join(local, "stock-links");
  expect((await files.get("/data", back)).skipped).toEqual(["nowhere"]);
  expect(readdirSync(back)).toEqual(["link"]);
  await files.mkdir("/still-works");
});

test("names of the guest that are not UTF-8 are counted as left out", async () => {
  await using daemon = await Daemon.start();
  using files = filesOf(daemon);
  const remote = join(daemon.root, "names");
  mkdirSync(join(remote, "sub"), { recursive: true });
  for (const folder of [remote, join(remote, "sub")]) {
    writeFileSync(Buffer.concat([Buffer.from(`${folder}/a`), Buffer.from([0xff])]), "x");
  }
  expect(await files.get(remote, join(local, "names-back"))).toEqual({ skipped: [], notUtf8: 2 });
});

test("new folders get the mode of the guest's, whatever the umask and though nothing may be written in them", async () => {
  await using daemon = await Daemon.start();
  using files = filesOf(daemon);
  const remote = join(daemon.root, "modes");
  mkdirSync(join(remote, "closed"), { recursive: true });
  writeFileSync(join(remote, "closed/f"), "f");
  chmodSync(join(remote, "closed"), 0o555);
  chmodSync(remote, 0o777);
  const back = join(local, "modes-back");
  await files.get(remote, back);
  expect(statSync(back).mode & 0o777).toBe(0o777);
  expect(statSync(join(back, "closed")).mode & 0o777).toBe(0o555);
  expect(readdirSync(join(back, "closed"))).toEqual(["f"]);
});

test("a file from before 1970 keeps its time both ways", async () => {
  await using daemon = await Daemon.start();
  using files = filesOf(daemon);
  const source = join(local, "old");
  writeFileSync(source, "old");
  utimesSync(source, new Date(-86_400_500), new Date(-86_400_500));
  await files.put(source, join(daemon.root, "old"));
  expect(statSync(join(daemon.root, "old")).mtimeMs).toBe(-86_400_500);
  await files.get(join(daemon.root, "old"), join(local, "old-back"));
  expect(statSync(join(local, "old-back")).mtimeMs).toBe(-86_400_500);
});

test("a download never takes the place of a FIFO, or of what a link to one leads to, and an upload does not wait for one", async () => {
  await using daemon = await Daemon.start();
  using files = filesOf(daemon);
  const fifo = join(local, "fifo");
  execFileSync("mkfifo", [fifo]);
  symlinkSync("fifo", join(local, "fifo-link"));
  writeFileSync(join(daemon.root, "f"), "f");
  for (const target of [fifo, join(local, "fifo-link")]) {
    await expect(files.get(join(daemon.root, "f"), target)).rejects.toMatchObject({
      code: "local",
      message: expect.stringContaining("neither a file nor a folder"),
    });
  }
  expect(lstatSync(fifo).isFIFO()).toBe(true);
  expect(lstatSync(join(local, "fifo-link")).isSymbolicLink()).toBe(true);
  await expect(files.put(fifo, join(daemon.root, "g"))).rejects.toMatchObject({ code: "local" });
  expect(readdirSync(daemon.root)).toEqual(["f"]);
  expect((await files.read(join(daemon.root, "f"))).toString()).toBe("f");
});

test("what was cut from one guest is not continued from another, though the files look the same", async () => {
  await using one = await Daemon.start();
  await using other = await Daemon.start();
  const path = join(one.root, "big");
  const into = join(local, "two-guests");
  mkdirSync(into);
  const size = 4 * 1024 * 1024;
  writeFileSync(path, Buffer.alloc(size, 1));
  utimesSync(path, 1_600_000_000, 1_600_000_000);
  const connect = (daemon: Daemon): Promise<Connection> => dial({ target: daemon.target, port: ports.control });
  const first = new GuestFiles(() => connect(one), "one");
  const stop = ({ bytes }: TransferProgress): void => {
    if (bytes > size / 2) first.abort();
  };
  await expect(first.get(path, join(into, "big"), { onProgress: stop })).rejects.toMatchObject({ code: "closed" });
  expect(readdirSync(into)).toHaveLength(1);
  // Both daemons see the same files: another guest's one of the same name, size and time.
  writeFileSync(path, Buffer.alloc(size, 2));
  utimesSync(path, 1_600_000_000, 1_600_000_000);
  using second = new GuestFiles(() => connect(other), "other");
  await second.get(path, join(into, "big"));
  expect(readFileSync(join(into, "big")).equals(Buffer.alloc(size, 2))).toBe(true);
  expect(readdirSync(into)).toEqual(["big"]);
});

test("a download that is broken off leaves nothing of a small file", async () => {
  await using daemon = await Daemon.start();
  const files = filesOf(daemon);
  const path = join(daemon.root, "small");
  const into = join(local, "broken-off");
  mkdirSync(into);
  writeFileSync(path, randomBytes(800_000));
  const stop = (): void => files.abort();
  await expect(files.get(path, join(into, "small"), { onProgress: stop })).rejects.toMatchObject({ code: "closed" });
  expect(readdirSync(into)).toEqual([]);
  await expect(files.list("/")).rejects.toMatchObject({ code: "closed" });
  using others = filesOf(daemon);
  expect((await others.read(path)).length).toBe(800_000);
});

/** The other file commands, item by item as in the protocol's list of conformance tests. */
import { expect, test } from "bun:test";
import { execFileSync } from "node:child_process";
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { Daemon } from "../control/daemon.ts";
import { entriesOf, get, list, onPeer, put } from "../control/file-requests.ts";
import type { Json } from "../control/raw-peer.ts";
import { answersPing } from "../control/still-answers.ts";

test("files: the list of an empty folder", () =>
  onPeer(async (peer, root) => {
    expect(await list(peer, root)).toEqual({ v: 1, t: "ok", id: "l", entries: [] });
    await answersPing(peer);
  }));

test(
  "files: a list of 50 000 entries is too large for one frame, and whole in pages",
  () =>
    onPeer(async (peer, root) => {
      const names = Array.from({ length: 50_000 }, (_, index) => `entry-${String(index).padStart(6, "0")}`);
      for (const name of names) writeFileSync(join(root, name), "");
      expect(await list(peer, root)).toMatchObject({ t: "err", code: "too_large" });
      const seen: unknown[] = [];
      for (;;) {
        const page = await list(peer, root, { limit: 10_000, ...(seen.length > 0 ? { after: seen.at(-1) } : {}) });
        seen.push(...entriesOf(page).map(({ name }) => name));
        if (page?.more !== true) break;
      }
      expect(seen).toEqual(names);
      await answersPing(peer);
    }),
  60_000,
);

test("files: the list of a folder that cannot be read, of a file and of nothing", () =>
  onPeer(async (peer, root) => {
    writeFileSync(join(root, "f"), "");
    expect(await list(peer, join(root, "f"))).toMatchObject({ t: "err" });
    expect(await list(peer, join(root, "nothing"))).toMatchObject({ t: "err", code: "not_found" });
    await answersPing(peer);
  }));

test("files: entries that vanish while a folder is listed are left out", () =>
  onPeer(async (peer, root) => {
    for (let index = 0; index < 2_000; index++) writeFileSync(join(root, `f${index}`), "");
    peer.send({ v: 1, t: "file_list", id: "l", path: root });
    for (let index = 0; index < 2_000; index++) {
      rmSync(join(root, `f${index}`));
      if (index % 50 === 0) await Bun.sleep(0);
    }
    expect(await peer.reply()).toMatchObject({ t: "ok", id: "l" });
    await answersPing(peer);
  }));

test("files: a broken link, a link to a folder, a FIFO, a socket and a device are listed as v1 does", () =>
  onPeer(async (peer, root) => {
    symlinkSync("nowhere", join(root, "broken"));
    mkdirSync(join(root, "dir"), { mode: 0o755 });
    symlinkSync("dir", join(root, "todir"));
    execFileSync("mkfifo", [join(root, "fifo")]);
    const server = createServer().listen(join(root, "sock"));
    await new Promise((resolve) => server.once("listening", resolve));
    const entries = entriesOf(await list(peer, root));
    server.close();
    const byName = Object.fromEntries(entries.map((entry) => [entry.name, entry]));
    expect(byName.broken).toMatchObject({ type: "link", link_target_dir: false, size: 7, perm: "777" });
    expect(byName.todir).toMatchObject({ type: "link", link_target_dir: true });
    expect(byName.dir).toMatchObject({ type: "dir", link_target_dir: false, perm: "755" });
    expect(byName.fifo).toMatchObject({ type: "file", special: true });
    expect(byName.sock).toMatchObject({ type: "file", special: true });
    const device = entriesOf(await list(peer, "/dev")).find(({ name }) => name === "null");
    expect(device).toMatchObject({ type: "file", special: true, perm: "666" });
    await answersPing(peer);
  }));

test("files: mkdir of what is there: a folder is fine, a file is not", () =>
  onPeer(async (peer, root) => {
    const mkdir = (path: string): Promise<Json | undefined> => peer.ask({ v: 1, t: "file_mkdir", id: "m", path });
    expect(await mkdir(join(root, "a/b"))).toEqual({ v: 1, t: "ok", id: "m" });
    expect(await mkdir(join(root, "a/b"))).toEqual({ v: 1, t: "ok", id: "m" });
    writeFileSync(join(root, "f"), "");
    expect(await mkdir(join(root, "f"))).toMatchObject({ t: "err", code: "exists" });
    expect(await mkdir(join(root, "f/x"))).toMatchObject({ t: "err" });
    await answersPing(peer);
  }));

test("files: delete of nothing, of a full folder, of a link and of /", () =>
  onPeer(async (peer, root) => {
    const remove = (path: string): Promise<Json | undefined> => peer.ask({ v: 1, t: "file_delete", id: "d", path });
    expect(await remove(join(root, "nothing"))).toMatchObject({ t: "err", code: "not_found" });
    mkdirSync(join(root, "full/deep"), { recursive: true });
    writeFileSync(join(root, "full/deep/f"), "");
    writeFileSync(Buffer.concat([Buffer.from(join(root, "full/bad")), Buffer.from([0xff])]), "");
    expect(await remove(join(root, "full"))).toMatchObject({ t: "ok" });
    mkdirSync(join(root, "kept"));
    writeFileSync(join(root, "kept/f"), "");
    symlinkSync("kept", join(root, "link"));
    expect(await remove(join(root, "link"))).toMatchObject({ t: "ok" });
    expect(readdirSync(root)).toEqual(["kept"]);
    expect(existsSync(join(root, "kept/f"))).toBe(true);
    for (const path of ["/", "//", "/tmp/..", "/."])
      expect(await remove(path)).toMatchObject({ t: "err", code: "denied" });
    await answersPing(peer);
  }));

test("files: delete and rename of a mount point, or of a folder that holds one, are refused", () =>
  onPeer(async (peer) => {
    for (const path of ["/proc", "/dev", "/sys"]) {
      expect(await peer.ask({ v: 1, t: "file_delete", id: "d", path })).toMatchObject({ t: "err", code: "busy" });
      expect(await peer.ask({ v: 1, t: "file_rename", id: "r", from: path, to: "/tmp/vmapp-moved" })).toMatchObject({
        t: "err",
        code: "busy",
      });
    }
    expect(existsSync("/proc/self")).toBe(true);
    await answersPing(peer);
  }));

test("files: rename never replaces, crosses filesystems and misses nothing", () =>
  onPeer(async (peer, root) => {
    const rename = (from: string, to: string): Promise<Json | undefined> =>
      peer.ask({ v: 1, t: "file_rename", id: "r", from, to });
    writeFileSync(join(root, "a"), "a");
    writeFileSync(join(root, "b"), "b");
    expect(await rename(join(root, "a"), join(root, "b"))).toMatchObject({ t: "err", code: "exists" });
    expect(await rename(join(root, "nothing"), join(root, "c"))).toMatchObject({ t: "err", code: "not_found" });
    expect(await rename(join(root, "a"), join(root, "c"))).toMatchObject({ t: "ok" });
    expect(readFileSync(join(root, "c"), "utf8")).toBe("a");
    expect(await peer.ask({ v: 1, t: "file_rename", id: "r", from: "/x" })).toMatchObject({
      t: "err",
      msg: "missing from/to",
    });
    const away = `/dev/shm/vmapp-test-${process.pid}`;
    mkdirSync(join(root, "tree/sub"), { recursive: true, mode: 0o750 });
    writeFileSync(join(root, "tree/sub/f"), "content", { mode: 0o640 });
    symlinkSync("sub/f", join(root, "tree/l"));
    try {
      expect(await rename(join(root, "tree"), away)).toMatchObject({ t: "ok" });
      expect(existsSync(join(root, "tree"))).toBe(false);
      expect(readFileSync(join(away, "sub/f"), "utf8")).toBe("content");
      expect(statSync(join(away, "sub/f")).mode & 0o777).toBe(0o640);
      expect(readlinkSync(join(away, "l"))).toBe("sub/f");
      expect(await rename(join(root, "c"), join(away, "sub"))).toMatchObject({ t: "err", code: "exists" });
    } finally {
      rmSync(away, { recursive: true, force: true });
    }
    await answersPing(peer);
  }));

test("files: names with a newline, quotes and an emoji; what is not UTF-8 is counted", () =>
  onPeer(async (peer, root) => {
    for (const name of ["a\nb", 'say "hi"', "it's", "🦊", " lead", "back\\slash"]) {
      expect(await put(peer, join(root, name), Buffer.from(name))).toMatchObject({ t: "ok" });
      expect((await get(peer, join(root, name))).raw?.toString()).toBe(name);
    }
    writeFileSync(Buffer.concat([Buffer.from(join(root, "bad")), Buffer.from([0xff, 0xfe])]), "");
    const reply = await list(peer, root);
    expect(
      entriesOf(reply)
        .map(({ name }) => name)
        .sort(),
    ).toEqual([" lead", "a\nb", "back\\slash", "it's", 'say "hi"', "🦊"].sort());
    expect(reply?.not_utf8).toBe(1);
    await answersPing(peer);
  }));

test("files: stat follows links or does not, and tells the fraction of the time", () =>
  onPeer(async (peer, root) => {
    writeFileSync(join(root, "f"), "abc", { mode: 0o600 });
    symlinkSync("f", join(root, "l"));
    const stat = (path: string, more: Json = {}): Promise<Json | undefined> =>
      peer.ask({ v: 1, t: "file_stat", id: "s", path, ...more });
    expect(await stat(join(root, "l"))).toMatchObject({
      t: "file_stat",
      type: "file",
      size: 3,
      perm: "600",
      mtime: statSync(join(root, "f")).mtimeMs / 1000,
    });
    expect(await stat(join(root, "l"), { nofollow: true })).toMatchObject({ type: "link", target: "f" });
    expect(await stat(join(root, "nothing"))).toMatchObject({ t: "err", code: "not_found" });
    await answersPing(peer);
  }));

test("files: a configured root holds against links, dots and renames", () =>
  onPeer(async (peer, root) => {
    const inside = join(root, "in");
    const outside = join(root, "out");
    mkdirSync(inside);
    mkdirSync(outside);
    writeFileSync(join(outside, "secret"), "s");
    symlinkSync(outside, join(inside, "way"));
    symlinkSync(join(outside, "secret"), join(inside, "leak"));
    symlinkSync(join(outside, "new"), join(inside, "dangling"));
    await using daemon = await Daemon.start({ root: inside });
    const jailed = await daemon.greeted();
    const denied = { t: "err", code: "denied" };
    for (const path of [outside, `${inside}/../out/secret`, `${inside}/way/secret`, `${inside}/leak`]) {
      expect((await get(jailed, path)).reply).toMatchObject(denied);
      expect(await list(jailed, path)).toMatchObject(denied);
    }
    expect(await put(jailed, `${inside}/way/new`, Buffer.from("x"))).toMatchObject(denied);
    expect(await put(jailed, `${inside}/dangling/new`, Buffer.from("x"))).toMatchObject(denied);
    expect(await jailed.ask({ v: 1, t: "file_mkdir", path: `${inside}/dangling` })).toMatchObject(denied);
    expect(await jailed.ask({ v: 1, t: "file_delete", path: `${inside}/way/secret` })).toMatchObject(denied);
    expect(await jailed.ask({ v: 1, t: "file_delete", path: inside })).toMatchObject(denied);
    expect(await jailed.ask({ v: 1, t: "file_rename", from: `${inside}/leak`, to: `${outside}/l` })).toMatchObject(
      denied,
    );
    expect(await put(jailed, `${inside}/fine`, Buffer.from("x"))).toMatchObject({ t: "ok" });
    expect(readdirSync(outside)).toEqual(["secret"]);
    await answersPing(jailed);
    await answersPing(peer);
  }));

test("files: a path that UTF-8 cannot express is refused, and is not taken for another", () =>
  onPeer(async (peer, root) => {
    writeFileSync(join(root, "\ufffd"), "kept");
    const ask = (t: string, more: Json = {}): Promise<Json | undefined> => {
      const path = `${root}/\ud800`;
      return peer.ask({ v: 1, t, id: "x", path, from: path, to: join(root, "moved"), ...more });
    };
    for (const t of ["file_stat", "file_get", "file_list", "file_mkdir", "file_rename", "file_delete"]) {
      expect(await ask(t)).toMatchObject({ t: "err", code: "bad_request" });
    }
    expect(await put(peer, `${root}/\ud800`, Buffer.from("new"))).toMatchObject({ code: "bad_request" });
    expect(readFileSync(join(root, "\ufffd"), "utf8")).toBe("kept");
    expect(readdirSync(root)).toHaveLength(1);
    await answersPing(peer);
  }));

test("files: rename across filesystems takes names along that are not UTF-8, and times before 1970", () =>
  onPeer(async (peer, root) => {
    const away = `/dev/shm/vmapp-test-names-${process.pid}`;
    const named = (folder: string): Buffer => Buffer.concat([Buffer.from(`${folder}/`), Buffer.from([0x61, 0xff])]);
    mkdirSync(join(root, "tree/sub"), { recursive: true });
    writeFileSync(named(join(root, "tree/sub")), "content");
    writeFileSync(join(root, "tree/f"), "");
    utimesSync(join(root, "tree/f"), new Date(-1000), new Date(-1000));
    try {
      const from = join(root, "tree");
      expect(await peer.ask({ v: 1, t: "file_rename", id: "r", from, to: away })).toMatchObject({ t: "ok" });
      expect(readFileSync(named(join(away, "sub")), "utf8")).toBe("content");
      expect(statSync(join(away, "f")).mtimeMs).toBe(-1000);
      expect(readdirSync(root)).toEqual([]);
    } finally {
      rmSync(away, { recursive: true, force: true });
    }
    await answersPing(peer);
  }));

test.skipIf(process.getuid?.() !== 0)(
  "files: rename of nothing onto a read-only filesystem names what is missing",
  () =>
    onPeer(async (peer, root) => {
      const away = join(root, "away");
      mkdirSync(away);
      execFileSync("mount", ["-t", "tmpfs", "-o", "ro", "vmapp-test", away]);
      try {
        const rename = (from: string): Promise<Json | undefined> =>
          peer.ask({ v: 1, t: "file_rename", id: "r", from: join(root, from), to: join(away, "f") });
        expect(await rename("nothing")).toMatchObject({ t: "err", code: "not_found" });
        writeFileSync(join(root, "f"), "f");
        expect(await rename("f")).toMatchObject({ t: "err", code: "denied", msg: expect.stringContaining("EROFS") });
        expect(readFileSync(join(root, "f"), "utf8")).toBe("f");
        await answersPing(peer);
      } finally {
        execFileSync("umount", [away]);
      }
    }),
);

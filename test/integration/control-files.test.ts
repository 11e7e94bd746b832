/** The file commands, item by item as in the protocol's list of conformance tests. */
import { expect, test } from "bun:test";
import { execFileSync } from "node:child_process";
import { createHash, randomBytes } from "node:crypto";
import {
  appendFileSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { crc32 } from "node:zlib";
import { Daemon } from "../control/daemon.ts";
import { frame, type Json, type RawPeer } from "../control/raw-peer.ts";
import { answersPing, closedAndServing } from "../control/still-answers.ts";

const sha256 = (bytes: Uint8Array): Buffer => createHash("sha256").update(bytes).digest();

interface Got {
  readonly reply: Json | undefined;
  readonly raw: Buffer | undefined;
}

async function get(peer: RawPeer, path: string, more: Json = {}): Promise<Got> {
  const reply = await peer.ask({ v: 1, t: "file_get", id: "g", path, ...more });
  return { reply, raw: reply?.t === "file_data" ? await peer.take(Number(reply.size)) : undefined };
}

function put(peer: RawPeer, path: string | undefined, content: Uint8Array, more: Json = {}): Promise<Json | undefined> {
  peer.sendBytes(
    Buffer.concat([
      frame({ v: 1, t: "file_put", id: "p", ...(path === undefined ? {} : { path }), size: content.length, ...more }),
      content,
    ]),
  );
  return peer.reply();
}

const list = (peer: RawPeer, path: string, more: Json = {}): Promise<Json | undefined> =>
  peer.ask({ v: 1, t: "file_list", id: "l", path, ...more });

function entriesOf(reply: Json | undefined): Json[] {
  return reply?.entries as Json[];
}

async function onPeer(
  work: (peer: RawPeer, root: string, daemon: Daemon) => Promise<void>,
  options = {},
): Promise<void> {
  await using daemon = await Daemon.start(options);
  const peer = await daemon.greeted();
  await work(peer, daemon.root, daemon);
  peer.close();
}

test("files: an empty file both ways", () =>
  onPeer(async (peer, root) => {
    expect(await put(peer, join(root, "e"), Buffer.alloc(0))).toEqual({ v: 1, t: "ok", id: "p" });
    const { reply, raw } = await get(peer, join(root, "e"));
    expect(reply).toMatchObject({ t: "file_data", size: 0 });
    expect(raw?.length).toBe(0);
    await answersPing(peer);
  }));

test("files: a put of 5 GiB is refused by the limit", () =>
  onPeer(async (peer, root, daemon) => {
    expect(await peer.ask({ v: 1, t: "file_put", id: "1", path: join(root, "x"), size: 5 * 1024 ** 3 })).toMatchObject({
      t: "err",
      id: "1",
      code: "too_large",
    });
    await closedAndServing(peer, daemon);
    expect(readdirSync(root)).toEqual([]);
  }));

test("files: a put that the disk has no room for is refused before it is received", () =>
  onPeer(
    async (peer, root, daemon) => {
      const reply = await peer.ask({ v: 1, t: "file_put", id: "1", path: join(root, "x"), size: 2 ** 50 });
      expect(reply).toMatchObject({ t: "err", id: "1", code: "no_space" });
      peer.close();
      const next = await daemon.greeted();
      await answersPing(next);
      while (readdirSync(root).length > 0) await Bun.sleep(5);
    },
    { maxPutBytes: 2 ** 51 },
  ));

test.each([[-1], [1.5], ["3"], [null], [[3]], [{}], [1e300]])("files: a put of size %j ends the connection", (size) =>
  onPeer(async (peer, root, daemon) => {
    expect(await peer.ask({ v: 1, t: "file_put", id: "1", path: join(root, "x"), size })).toMatchObject({
      t: "err",
      id: "1",
    });
    await closedAndServing(peer, daemon);
    expect(readdirSync(root)).toEqual([]);
  }),
);

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

test("files: get of a folder, a FIFO and a device is refused and does not hang", () =>
  onPeer(async (peer, root) => {
    execFileSync("mkfifo", [join(root, "fifo")]);
    for (const path of [root, join(root, "fifo"), "/dev/zero"]) {
      expect((await get(peer, path)).reply).toMatchObject({ t: "err", msg: "not a regular file" });
    }
    expect((await get(peer, join(root, "nothing"))).reply).toMatchObject({ t: "err", code: "not_found" });
    await answersPing(peer);
  }));

test("files: get of a growing file sends what was announced", () =>
  onPeer(async (peer, root) => {
    const path = join(root, "log");
    const content = randomBytes(8 * 1024 * 1024);
    writeFileSync(path, content);
    peer.socket.pause();
    peer.send({ v: 1, t: "file_get", id: "g", path });
    await Bun.sleep(50);
    appendFileSync(path, randomBytes(1024 * 1024));
    peer.socket.resume();
    const reply = await peer.reply();
    expect(reply).toMatchObject({ t: "file_data", size: content.length });
    expect(sha256((await peer.take(content.length)) ?? Buffer.alloc(0))).toEqual(sha256(content));
    await answersPing(peer);
  }));

test("files: get of a file that is truncated meanwhile ends the connection instead of lying", () =>
  onPeer(async (peer, root, daemon) => {
    const path = join(root, "log");
    writeFileSync(path, randomBytes(16 * 1024 * 1024));
    peer.socket.pause();
    peer.send({ v: 1, t: "file_get", id: "g", path });
    await Bun.sleep(50);
    truncateSync(path, 1000);
    peer.socket.resume();
    expect(await peer.reply()).toMatchObject({ t: "file_data", size: 16 * 1024 * 1024 });
    await closedAndServing(peer, daemon);
  }));

test("files: with a hash behind it, a file that changes while it is read is told as such and the stream stays in step", () =>
  onPeer(async (peer, root) => {
    const path = join(root, "log");
    for (const change of [() => truncateSync(path, 1000), () => appendFileSync(path, "more")]) {
      writeFileSync(path, randomBytes(16 * 1024 * 1024));
      peer.socket.pause();
      peer.send({ v: 1, t: "file_get", id: "g", path, trailer: "sha256" });
      await Bun.sleep(50);
      change();
      peer.socket.resume();
      const reply = await peer.reply();
      expect(reply).toMatchObject({ t: "file_data", size: 16 * 1024 * 1024 + 32, trailer: "sha256" });
      const raw = await peer.take(16 * 1024 * 1024 + 32);
      expect(raw?.subarray(-32)).toEqual(Buffer.alloc(32));
      await answersPing(peer);
    }
  }));

test("files: get of /proc/cpuinfo and of a sysfs file sends their real content", () =>
  onPeer(async (peer) => {
    for (const path of ["/proc/version", "/sys/kernel/mm/transparent_hugepage/enabled", "/proc/cpuinfo"]) {
      const { reply, raw } = await get(peer, path);
      expect(reply?.size).toBe(raw?.length);
      expect(raw?.length).toBeGreaterThan(0);
      if (path === "/proc/version") expect(raw?.toString()).toBe(readFileSync(path, "utf8"));
      await answersPing(peer);
    }
  }));

test("files: get of a range, past the end and with its hash", () =>
  onPeer(async (peer, root) => {
    const path = join(root, "f");
    const content = randomBytes(300_000);
    writeFileSync(path, content);
    expect((await get(peer, path, { offset: 100_000, length: 50_000 })).raw).toEqual(
      content.subarray(100_000, 150_000),
    );
    expect((await get(peer, path, { offset: 299_999, length: 50 })).raw).toEqual(content.subarray(299_999));
    expect((await get(peer, path, { offset: 400_000 })).reply).toMatchObject({ size: 0, total: 300_000 });
    const hashed = await get(peer, path, { offset: 10, length: 20, trailer: "sha256" });
    expect(hashed.raw).toEqual(Buffer.concat([content.subarray(10, 30), sha256(content.subarray(10, 30))]));
    expect((await get(peer, path, { offset: -1 })).reply).toMatchObject({ t: "err", code: "bad_request" });
    const checked = await get(peer, path, { offset: 10, length: 20, trailer: "crc32" });
    const crc = Buffer.from([1, 0, 0, 0, 0]);
    crc.writeUInt32BE(crc32(content.subarray(10, 30)), 1);
    expect(checked.raw).toEqual(Buffer.concat([content.subarray(10, 30), crc]));
    await answersPing(peer);
  }));

test("files: put over a file replaces it whole, over a link replaces the link, over a folder fails", () =>
  onPeer(async (peer, root) => {
    writeFileSync(join(root, "f"), Buffer.alloc(1024 * 1024, 1));
    expect(await put(peer, join(root, "f"), Buffer.from("0123456789"))).toMatchObject({ t: "ok" });
    expect(readFileSync(join(root, "f"), "utf8")).toBe("0123456789");
    symlinkSync("f", join(root, "l"));
    expect(await put(peer, join(root, "l"), Buffer.from("new"))).toMatchObject({ t: "ok" });
    expect(lstatSync(join(root, "l")).isFile()).toBe(true);
    expect(readFileSync(join(root, "f"), "utf8")).toBe("0123456789");
    mkdirSync(join(root, "d"));
    for (const size of [3, 2 * 1024 * 1024]) {
      expect(await put(peer, join(root, "d"), Buffer.alloc(size))).toMatchObject({
        t: "err",
        code: "exists",
        msg: expect.stringContaining("rename failed"),
      });
      await answersPing(peer);
    }
    expect(readdirSync(root).sort()).toEqual(["d", "f", "l"]);
  }));

test("files: put makes the folders that are missing", () =>
  onPeer(async (peer, root) => {
    expect(await put(peer, join(root, "a/b/c"), Buffer.from("x"))).toMatchObject({ t: "ok" });
    expect(statSync(join(root, "a/b/c")).mode & 0o777).toBe(0o644);
    writeFileSync(join(root, "file"), "");
    expect(await put(peer, join(root, "file/below"), Buffer.from("x"))).toMatchObject({ t: "err" });
    await answersPing(peer);
  }));

test("files: put on a filesystem that takes no files", () =>
  onPeer(async (peer) => {
    expect(await put(peer, "/proc/vmapp-test", Buffer.alloc(70_000))).toMatchObject({ t: "err" });
    expect(await put(peer, "/sys/vmapp-test", Buffer.alloc(70_000))).toMatchObject({ t: "err" });
    await answersPing(peer);
  }));

test.each(["999", "", "0o644", "04755", "4755", " 644", 644, null])(
  "files: put with perm %j is refused and changes nothing",
  (perm) =>
    onPeer(async (peer, root) => {
      expect(await put(peer, join(root, "f"), Buffer.from("abc"), { perm })).toMatchObject({
        t: "err",
        code: "bad_request",
      });
      expect(readdirSync(root)).toEqual([]);
      await answersPing(peer);
    }),
);

test.each([
  ["600", 0o600],
  ["0755", 0o755],
  ["0", 0],
])("files: put with perm %s", (perm, mode) =>
  onPeer(async (peer, root) => {
    expect(await put(peer, join(root, "f"), Buffer.from("abc"), { perm })).toMatchObject({ t: "ok" });
    expect(statSync(join(root, "f")).mode & 0o7777).toBe(mode);
  }),
);

test("files: put without a path keeps the stream in step", () =>
  onPeer(async (peer) => {
    expect(await put(peer, undefined, randomBytes(100_000))).toMatchObject({
      t: "err",
      msg: "missing path",
      code: "bad_request",
    });
    await answersPing(peer);
    expect(await put(peer, "", randomBytes(10))).toMatchObject({ t: "err", msg: "missing path" });
    expect(await put(peer, "relative", randomBytes(10))).toMatchObject({ t: "err", code: "bad_request" });
    expect(await put(peer, "/tmp/a\0b", randomBytes(10))).toMatchObject({ t: "err", code: "bad_request" });
    await answersPing(peer);
  }));

test("files: put with a hash that does not fit the content changes nothing", () =>
  onPeer(async (peer, root) => {
    const path = join(root, "f");
    const content = randomBytes(100_000);
    writeFileSync(path, "old");
    expect(await put(peer, path, content, { sha256: "0".repeat(64) })).toMatchObject({
      t: "err",
      code: "hash_mismatch",
    });
    expect(await put(peer, path, Buffer.concat([content, Buffer.alloc(32)]), { trailer: "sha256" })).toMatchObject({
      t: "err",
      code: "hash_mismatch",
    });
    expect(await put(peer, path, Buffer.alloc(31), { trailer: "sha256" })).toMatchObject({
      t: "err",
      code: "bad_request",
    });
    expect(readFileSync(path, "utf8")).toBe("old");
    expect(readdirSync(root)).toEqual(["f"]);
    expect(await put(peer, path, content, { sha256: sha256(content).toString("hex") })).toMatchObject({ t: "ok" });
    expect(await put(peer, path, Buffer.concat([content, sha256(content)]), { trailer: "sha256" })).toMatchObject({
      t: "ok",
    });
    expect(readFileSync(path)).toEqual(content);
    await answersPing(peer);
  }));

test("files: a connection cut in mid-put leaves the target as it was and nothing beside it", () =>
  onPeer(async (peer, root, daemon) => {
    const path = join(root, "f");
    writeFileSync(path, "old");
    peer.sendBytes(
      Buffer.concat([frame({ v: 1, t: "file_put", id: "p", path, size: 4_000_000 }), randomBytes(1_000_000)]),
    );
    while (readdirSync(root).length < 2) await Bun.sleep(5);
    peer.close();
    while (readdirSync(root).length > 1) await Bun.sleep(5);
    expect(readFileSync(path, "utf8")).toBe("old");
    await answersPing(await daemon.greeted());
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

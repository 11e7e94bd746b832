/** `file_put`, item by item as in the protocol's list of conformance tests. */
import { expect, test } from "bun:test";
import { execFileSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import {
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ports, unixSocketName } from "#protocol/ports.ts";
import { get, onPeer, put, sha256 } from "../control/file-requests.ts";
import { frame, RawPeer } from "../control/raw-peer.ts";
import { answersPing, closedAndServing } from "../control/still-answers.ts";
import { startLocalAgent } from "../shell/agent.ts";

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

test.each([1e300, -1e300])("files: put with an mtime of %d is answered, and keeps the stream in step", (mtime) =>
  onPeer(async (peer, root) => {
    expect((await put(peer, join(root, "f"), Buffer.from("abc"), { mtime }))?.id).toBe("p");
    await answersPing(peer);
    expect(readdirSync(root).filter((name) => name.endsWith(".part"))).toEqual([]);
  }),
);

test("files: put with a time before 1970 keeps it, and one that no filesystem can hold harms nothing", () =>
  onPeer(async (peer, root) => {
    const path = join(root, "f");
    expect(await put(peer, path, Buffer.from("abc"), { mtime: -86_400.5 })).toMatchObject({ t: "ok" });
    expect(statSync(path).mtimeMs).toBe(-86_400_500);
    for (const mtime of [-1e300, 1e300]) {
      expect(await put(peer, path, Buffer.from("abc"), { mtime })).toMatchObject({ t: "ok" });
    }
    await answersPing(peer);
  }));

test("files: a put that fails takes the folders that it made with it, and no others", () =>
  onPeer(async (peer, root, daemon) => {
    mkdirSync(join(root, "old"));
    const path = join(root, "old/new/newer/f");
    const spoilt = { sha256: "0".repeat(64) };
    expect(await put(peer, path, Buffer.from("abc"), spoilt)).toMatchObject({ code: "hash_mismatch" });
    expect(readdirSync(root)).toEqual(["old"]);
    expect(readdirSync(join(root, "old"))).toEqual([]);
    await answersPing(peer);
    peer.sendBytes(frame({ v: 1, t: "file_put", id: "p", path, size: 10 }));
    while (readdirSync(join(root, "old")).length === 0) await Bun.sleep(5);
    peer.close();
    while (readdirSync(join(root, "old")).length > 0) await Bun.sleep(5);
    await answersPing(await daemon.greeted());
  }));

test.skipIf(process.getuid?.() !== 0)("files: a filesystem that does not count its space takes files of any size", () =>
  onPeer(async (peer, root) => {
    execFileSync("mount", ["-t", "ramfs", "vmapp-test", root]);
    try {
      expect(await put(peer, join(root, "f"), Buffer.alloc(2 * 1024 * 1024, 1))).toMatchObject({ t: "ok" });
      expect(statSync(join(root, "f")).size).toBe(2 * 1024 * 1024);
      await answersPing(peer);
    } finally {
      execFileSync("umount", [root]);
    }
  }),
);

test("files: an agent that is asked to end in mid-put leaves nothing of it", async () => {
  await using agent = await startLocalAgent();
  const root = mkdtempSync(join(tmpdir(), "vmapp-files-"));
  try {
    const peer = await RawPeer.connect(join(agent.directory, unixSocketName(ports.control)));
    await peer.ask({ v: 1, t: "hello" });
    peer.sendBytes(frame({ v: 1, t: "file_put", id: "p", path: join(root, "f"), size: 1000 }));
    peer.sendBytes(randomBytes(500));
    while (readdirSync(root).length === 0) await Bun.sleep(5);
    process.kill(agent.pid, "SIGTERM");
    expect(await peer.endsWithin(10_000)).toBe(true);
    expect(readdirSync(root)).toEqual([]);
  } finally {
    rmSync(root, { recursive: true, force: true });
  }
}, 30_000);

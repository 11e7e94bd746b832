/** `file_get`, item by item as in the protocol's list of conformance tests. */
import { expect, test } from "bun:test";
import { execFileSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { appendFileSync, readFileSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { crc32 } from "node:zlib";
import { get, onPeer, sha256 } from "../control/file-requests.ts";
import { answersPing, closedAndServing } from "../control/still-answers.ts";

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

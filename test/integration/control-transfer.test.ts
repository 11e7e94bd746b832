import { afterAll, beforeAll, expect, test } from "bun:test";
import { createHash, randomBytes } from "node:crypto";
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { GuestFiles } from "#host/files.ts";
import { dial } from "#host/transport/dial.ts";
import { ports } from "#protocol/ports.ts";
import { Daemon } from "../control/daemon.ts";

let local: string;
beforeAll(() => {
  local = mkdtempSync(join(tmpdir(), "vmapp-local-"));
});
afterAll(() => rmSync(local, { recursive: true, force: true }));

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
  expect(await files.put(source, remote)).toEqual({ skipped: ["folderlink"] });
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
    for (const name of readdirSync(into)) rmSync(join(into, name));
  }
}, 60_000);

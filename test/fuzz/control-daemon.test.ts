/** Hostile hosts against the daemon: whatever is sent, it goes on serving, in bounded memory, and stays in its root. */
import { expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Daemon } from "../control/daemon.ts";
import { mutateBytes, mutateFields } from "../control/mutate.ts";
import { frame, type Json, RawPeer } from "../control/raw-peer.ts";
import { answersPing } from "../control/still-answers.ts";
import { Random } from "./random.ts";

const seed = Number(process.env.VMAPP_FUZZ_SEED ?? Date.now() % 1_000_000_000);
const messages = process.env.VMAPP_FULL === "1" ? 1_000_000 : 20_000;
const sideBySide = 8;
const messagesPerConnection = 20;

interface Ground {
  readonly inside: string;
  readonly outside: string;
}

function layOut(folder: string): Ground {
  const ground = { inside: join(folder, "in"), outside: join(folder, "out") };
  mkdirSync(ground.inside);
  mkdirSync(ground.outside);
  writeFileSync(join(ground.outside, "kept"), "kept");
  return ground;
}

/** What the messages act on; they may well remove it. */
function plant({ inside, outside }: Ground): void {
  for (const [name, target] of [
    ["way", outside],
    ["leak", join(outside, "kept")],
    ["new", join(outside, "made")],
  ] as const) {
    try {
      symlinkSync(target, join(inside, name));
    } catch {
      // Still there.
    }
  }
  // It may have become a folder, or a link that leads outside.
  rmSync(join(inside, "file"), { recursive: true, force: true });
  writeFileSync(join(inside, "file"), "content");
}

function message(random: Random, { inside, outside }: Ground): { readonly fields: Json; readonly raw: Buffer } {
  const path = join(
    random.chance(0.8) ? inside : outside,
    random.pick([
      "file",
      "other",
      "folder",
      "way/kept",
      "way/made",
      "leak",
      "new",
      "new/x",
      "../out/kept",
      "folder/deep/er",
      ".",
      "..",
      "",
    ]),
  );
  const size = random.pick([0, 0, 1, 5, 100, 3000]);
  const raw = random.bytes(size);
  const id = random.below(1000).toString(16);
  const fields = random.pick<Json>([
    { t: "ping" },
    { t: "version" },
    { t: "file_put", path, size, perm: "600" },
    { t: "file_put", path, size, trailer: random.pick(["crc32", "sha256"]), mtime: 1 },
    { t: "file_get", path },
    { t: "file_get", path, offset: 1, length: 3, trailer: random.pick(["crc32", "sha256"]) },
    { t: "file_list", path, limit: 2, after: "a" },
    { t: "file_mkdir", path },
    { t: "file_delete", path },
    { t: "file_rename", from: path, to: join(inside, random.pick(["file", "other", "folder/x", "way/x"])) },
    { t: "file_stat", path, nofollow: random.chance(0.5) },
    { t: "clipboard_set", type: "image", size },
    { t: "clipboard_set", text: "x" },
    { t: "clipboard_get" },
    { t: "low_power_mode", enabled: true },
    { t: "update", size },
    { t: "hello" },
  ]);
  return { fields: { v: 1, id, ...fields }, raw: "size" in fields ? raw : Buffer.alloc(0) };
}

async function attack(random: Random, daemon: Daemon, ground: Ground): Promise<void> {
  const peer = await RawPeer.connect(daemon.socketPath);
  peer.socket.on("data", () => {});
  if (random.chance(0.97)) peer.sendBytes(frame({ v: 1, t: "hello" }));
  for (let count = 0; count < messagesPerConnection; count++) {
    const { fields, raw } = message(random, ground);
    peer.sendBytes(mutateBytes(random, mutateFields(random, fields), raw));
  }
  peer.socket.end();
  // An upload that was announced and never comes keeps a connection until its other end goes.
  if (!(await peer.endsWithin(2_000))) throw new Error("the daemon kept a connection whose peer had ended its side");
  peer.close();
}

test(`${messages} mutated messages neither stop the daemon nor leave its root (seed ${seed})`, async () => {
  const folder = mkdtempSync(join(tmpdir(), "vmapp-fuzz-"));
  try {
    const ground = layOut(folder);
    await using daemon = await Daemon.start({ root: ground.inside, maxPutBytes: 10_000 });
    const random = new Random(seed);
    let sent = 0;
    let peakRss = 0;
    const baseRss = process.memoryUsage.rss();
    while (sent < messages) {
      plant(ground);
      await Promise.all(Array.from({ length: sideBySide }, () => attack(random, daemon, ground)));
      sent += sideBySide * messagesPerConnection;
      peakRss = Math.max(peakRss, process.memoryUsage.rss());
      daemon.logLines.length = 0;
      expect(readdirSync(ground.outside)).toEqual(["kept"]);
    }
    expect(readFileSync(join(ground.outside, "kept"), "utf8")).toBe("kept");
    expect(readdirSync(folder).sort()).toEqual(["in", "out"]);
    expect(readdirSync(ground.inside).filter((name) => name.endsWith(".part"))).toEqual([]);
    expect(peakRss - baseRss).toBeLessThan(400 * 1024 * 1024);
    await answersPing(await daemon.greeted());
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}, 3_600_000);

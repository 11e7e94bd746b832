/** Hostile guests against the client: it answers every request in time, holds little, and writes only where it was told to. */
import { expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ControlConnection } from "#host/clients/control/connection.ts";
import { ping } from "#host/clients/control/core.ts";
import { ControlError } from "#host/clients/control/error.ts";
import { getFile, listFolder, statEntry } from "#host/clients/control/files.ts";
import { GuestFiles } from "#host/files.ts";
import { mutateBytes, mutateFields } from "../control/mutate.ts";
import type { Json } from "../control/raw-peer.ts";
import { StockDaemon } from "../control/stock-daemon.ts";
import { Random } from "./random.ts";

const seed = Number(process.env.VMAPP_FUZZ_SEED ?? Date.now() % 1_000_000_000);
const rounds = process.env.VMAPP_FULL === "1" ? 50_000 : 3_000;

function answer(random: Random, request: Json): { readonly fields: Json; readonly raw: Buffer } {
  const id = request.id;
  const raw = random.bytes(random.pick([0, 1, 40, 500]));
  const entry = {
    name: random.pick(["a", "b", "../x", "/etc/x", "..", "a/b"]),
    type: random.pick(["file", "dir", "link"]),
    link_target_dir: false,
    size: 3,
    perm: "644",
    mtime: 1,
  };
  const fields = random.pick<Json>([
    { t: "pong", id },
    { t: "ok", id },
    { t: "ok", id, entries: [entry], more: random.chance(0.2) },
    { t: "file_stat", id, ...entry },
    { t: "file_data", id, size: raw.length },
    { t: "file_data", id, size: raw.length, trailer: random.pick(["crc32", "sha256"]) },
    { t: "err", id, msg: "no", code: "not_found" },
    { t: "clipboard_get", id, has_image: true, image_size: raw.length },
  ]);
  return {
    fields: { v: 1, ...fields },
    raw: fields.t === "file_data" || fields.t === "clipboard_get" ? raw : Buffer.alloc(0),
  };
}

test(`${rounds} rounds against a guest that mutates its answers end with a result or a typed error (seed ${seed})`, async () => {
  const random = new Random(seed);
  const folder = mkdtempSync(join(tmpdir(), "vmapp-fuzz-"));
  await using daemon = await new StockDaemon({
    hello: { caps: ["file", "file.stat", "file.range", "file.trailer", "file.page"] },
    answer: (peer, request) => {
      const { fields, raw } = answer(random, request);
      peer.sendBytes(mutateBytes(random, mutateFields(random, fields), raw));
      if (random.chance(0.3)) peer.close();
      return true;
    },
  }).listen();
  const baseRss = process.memoryUsage.rss();
  try {
    for (let round = 0; round < rounds; round++) {
      const control = await ControlConnection.open(await daemon.dial());
      // Whatever a request waits for in vain ends with the connection.
      const end = setTimeout(() => control.close(), 20);
      const outcomes = await Promise.allSettled([
        ping(control),
        listFolder(control, "/data"),
        statEntry(control, "/data"),
        getFile(control, "/data", { onPiece() {} }),
      ]);
      clearTimeout(end);
      control.close();
      for (const outcome of outcomes)
        if (outcome.status === "rejected") expect(outcome.reason).toBeInstanceOf(ControlError);
      if (round % 20 > 0) continue;
      mkdirSync(join(folder, "into"), { recursive: true });
      using files = new GuestFiles(daemon.dial);
      await Promise.race([files.get("/data", join(folder, "into/here")).catch(() => {}), Bun.sleep(50)]);
      expect(readdirSync(folder)).toEqual(["into"]);
      for (const name of readdirSync(join(folder, "into")))
        expect(name).toMatch(/^(here|\.vmapp-[0-9a-f]{16}-[0-9a-f]{16}\.part)$/);
    }
    expect(process.memoryUsage.rss() - baseRss).toBeLessThan(400 * 1024 * 1024);
    daemon.script = {};
    const control = await ControlConnection.open(await daemon.dial());
    await ping(control);
    control.close();
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}, 3_600_000);

/** A scripted host that speaks stock v1 and nothing else, against our daemon: hex ids, escaped slashes, no extensions. */
import { expect, test } from "bun:test";
import { createHash, randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { Daemon } from "../control/daemon.ts";
import { type Json, RawPeer } from "../control/raw-peer.ts";
import { stockFrame } from "../control/stock-daemon.ts";

/** The original's client: one counter for all messages, printed in hex; header and JSON in two writes. */
class StockHost {
  #counter = 0;

  private constructor(private readonly peer: RawPeer) {}

  static async connect(daemon: Daemon, binHash?: string): Promise<[StockHost, Json]> {
    const host = new StockHost(await RawPeer.connect(daemon.socketPath));
    host.#write({ v: 1, t: "hello", ...(binHash === undefined ? {} : { bin_hash: binHash }) });
    return [host, (await host.peer.reply()) ?? {}];
  }

  async request(
    fields: Json,
    raw?: Uint8Array,
  ): Promise<{ readonly reply: Json | undefined; readonly raw: Buffer | undefined }> {
    const id = (++this.#counter).toString(16);
    this.#write({ v: 1, id, ...fields });
    if (raw !== undefined)
      for (let at = 0; at < raw.length; at += 32_768) this.peer.sendBytes(raw.subarray(at, at + 32_768));
    const reply = await this.peer.reply();
    expect(reply?.id).toBe(id);
    const announced = reply?.t === "file_data" ? reply.size : reply?.has_image === true ? reply.image_size : undefined;
    return { reply, raw: typeof announced === "number" ? await this.peer.take(announced) : undefined };
  }

  ended(): Promise<boolean> {
    return this.peer.endsWithin(5_000);
  }

  #write(message: Json): void {
    const frame = stockFrame(message);
    this.peer.sendBytes(frame.subarray(0, 4));
    this.peer.sendBytes(frame.subarray(4));
  }
}

test("a stock host works with files, the clipboard and what it sends on every connect", async () => {
  await using daemon = await Daemon.start({ build: "abc" });
  const [host, hello] = await StockHost.connect(daemon);
  expect(hello).toMatchObject({ v: 1, t: "hello", name: "vphoned" });
  expect(hello.caps).toContain("file");
  expect(hello).not.toHaveProperty("ios");
  expect((await host.request({ t: "ping" })).reply).toMatchObject({ t: "pong" });
  expect((await host.request({ t: "version" })).reply).toMatchObject({ t: "version", hash: "abc" });
  expect((await host.request({ t: "low_power_mode", enabled: false })).reply).toMatchObject({
    t: "low_power_mode",
    ok: false,
  });
  for (const t of [
    "hid",
    "touch",
    "location",
    "location_stop",
    "devmode",
    "open_url",
    "accessibility_tree",
    "ipa_install",
  ]) {
    expect((await host.request({ t, page: 12, usage: 64, x: 0.5, y: 1, phase: 0 })).reply).toMatchObject({
      t: "err",
      msg: `unknown type: ${t}`,
    });
  }

  const folder = join(daemon.root, "in/the folder");
  const content = randomBytes(300_000);
  expect((await host.request({ t: "file_mkdir", path: folder })).reply).toMatchObject({ t: "ok" });
  expect(
    (await host.request({ t: "file_put", path: `${folder}/f`, size: content.length, perm: "644" }, content)).reply,
  ).toMatchObject({ t: "ok" });
  expect((await host.request({ t: "file_put", path: `${folder}/empty`, size: 0, perm: "644" })).reply).toMatchObject({
    t: "ok",
  });
  const listed = (await host.request({ t: "file_list", path: folder })).reply?.entries as Json[];
  expect(listed).toContainEqual({
    name: "f",
    type: "file",
    link_target_dir: false,
    size: 300_000,
    perm: "644",
    mtime: expect.any(Number),
  });
  const got = await host.request({ t: "file_get", path: `${folder}/f` });
  expect(got.reply).toMatchObject({ t: "file_data", size: 300_000 });
  expect(got.raw?.equals(content)).toBe(true);
  expect((await host.request({ t: "file_rename", from: `${folder}/f`, to: `${folder}/g` })).reply).toMatchObject({
    t: "ok",
  });
  expect((await host.request({ t: "file_get", path: `${folder}/f` })).reply).toMatchObject({
    t: "err",
    msg: expect.stringContaining("open failed: "),
  });
  expect((await host.request({ t: "file_delete", path: join(daemon.root, "in") })).reply).toMatchObject({ t: "ok" });

  expect((await host.request({ t: "clipboard_set", text: "a/b" })).reply).toMatchObject({
    t: "clipboard_set",
    ok: true,
    change_count: 1,
  });
  expect((await host.request({ t: "clipboard_get" })).reply).toMatchObject({
    text: "a/b",
    has_image: false,
    change_count: 1,
  });
});

test("a stock host, which announces its program in the hello alone, updates the guest", async () => {
  await using daemon = await Daemon.start();
  const program = readFileSync("/bin/true");
  const [host, hello] = await StockHost.connect(daemon, createHash("sha256").update(program).digest("hex"));
  expect(hello.need_update).toBe(true);
  expect((await host.request({ t: "update", size: program.length }, program)).reply).toMatchObject({
    t: "ok",
    msg: "updated, restarting",
  });
  expect(await host.ended()).toBe(true);
  expect(daemon.offers).toHaveLength(1);
});

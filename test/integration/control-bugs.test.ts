/** Failures that were reported of daemons and clients of this protocol, by the numbers that docs/control.md gives them. */
import { expect, test } from "bun:test";
import { execFileSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ControlClient } from "#host/clients/control/client.ts";
import { ControlConnection } from "#host/clients/control/connection.ts";
import { ping } from "#host/clients/control/core.ts";
import { putFile } from "#host/clients/control/files.ts";
import { GuestFiles } from "#host/files.ts";
import { dial } from "#host/transport/dial.ts";
import { ports } from "#protocol/ports.ts";
import { Daemon } from "../control/daemon.ts";
import { frame } from "../control/raw-peer.ts";
import { answersPing } from "../control/still-answers.ts";
import { StockDaemon } from "../control/stock-daemon.ts";

const isRoot = process.getuid?.() === 0;

test.skipIf(!isRoot)(
  "B4: a disk that fills up in mid-put is told, leaves nothing behind and keeps the stream in step",
  async () => {
    await using daemon = await Daemon.start();
    execFileSync("mount", ["-t", "tmpfs", "-o", "size=2m", "vmapp-test", daemon.root]);
    try {
      const peer = await daemon.greeted();
      writeFileSync(join(daemon.root, "old"), "old");
      // Small enough to pass the look at the free space: what fills the disk comes meanwhile.
      const size = 1_000_000;
      peer.sendBytes(frame({ v: 1, t: "file_put", id: "p", path: join(daemon.root, "old"), size }));
      peer.sendBytes(randomBytes(size / 2));
      while (readdirSync(daemon.root).length < 2) await Bun.sleep(5);
      writeFileSync(join(daemon.root, "filler"), "");
      try {
        writeFileSync(join(daemon.root, "filler"), Buffer.alloc(2_000_000));
      } catch {
        // Full, as meant.
      }
      peer.sendBytes(randomBytes(size / 2));
      expect(await peer.reply()).toMatchObject({ t: "err", id: "p", code: "no_space" });
      await answersPing(peer);
      expect(readdirSync(daemon.root).sort()).toEqual(["filler", "old"]);
      expect(readFileSync(join(daemon.root, "old"), "utf8")).toBe("old");
    } finally {
      execFileSync("umount", [daemon.root]);
    }
  },
);

test("B5: an image that the clipboard does not take leaves the stream in step", async () => {
  await using daemon = await Daemon.start();
  const peer = await daemon.greeted();
  const set = (image: Buffer) =>
    Buffer.concat([frame({ v: 1, t: "clipboard_set", id: "c", type: "image", size: image.length }), image]);
  peer.sendBytes(set(randomBytes(200_000)));
  expect(await peer.reply()).toMatchObject({ t: "err", msg: "the image is not a PNG" });
  peer.sendBytes(set(Buffer.alloc(0)));
  expect(await peer.reply()).toMatchObject({ t: "err", msg: "invalid image size" });
  expect(await peer.ask({ v: 1, t: "clipboard_set", id: "c" })).toMatchObject({ t: "err", msg: "missing text" });
  await answersPing(peer);
  const png = Buffer.concat([Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]), randomBytes(1000)]);
  peer.sendBytes(set(png));
  expect(await peer.reply()).toEqual({ v: 1, t: "clipboard_set", id: "c", ok: true, change_count: 1 });
  expect(await peer.ask({ v: 1, t: "clipboard_get", id: "g" })).toMatchObject({
    has_image: true,
    image_size: png.length,
    types: ["image/png"],
  });
  expect(await peer.take(png.length)).toEqual(png);
  await answersPing(peer);
});

test("B6: an upload that fails on this side is never continued as if nothing had happened", async () => {
  await using daemon = await Daemon.start();
  const control = await daemon.connect();
  async function* failing(): AsyncGenerator<Buffer> {
    yield Buffer.alloc(1000);
    throw new Error("the source broke");
  }
  await expect(putFile(control, join(daemon.root, "f"), { size: 5000, pieces: failing() })).rejects.toMatchObject({
    code: "local",
    message: expect.stringContaining("the source broke"),
  });
  expect(readdirSync(daemon.root)).toEqual([]);
  await ping(control);
});

test("B7: no raw block is sent to a guest that does not offer to take it", async () => {
  await using daemon = await new StockDaemon({ hello: { caps: [] } }).listen();
  const control = await ControlConnection.open(await daemon.dial());
  await expect(putFile(control, "/x", { size: 1, pieces: [Buffer.alloc(1)] })).rejects.toMatchObject({
    code: "unavailable",
  });
  expect(daemon.requests).toEqual([]);
  await ping(control);
  control.close();
});

test("B8: an upload over the guest's limit is refused before a byte of it is sent", async () => {
  await using daemon = await Daemon.start({ maxPutBytes: 1000 });
  const control = await daemon.connect();
  await expect(
    putFile(control, join(daemon.root, "f"), { size: 2000, pieces: [Buffer.alloc(2000)] }),
  ).rejects.toMatchObject({ code: "too_large" });
  await ping(control);
});

test("B9: a clipboard text that no reply could hold is refused when it is set", async () => {
  await using daemon = await Daemon.start();
  const peer = await daemon.greeted();
  expect(await peer.ask({ v: 1, t: "clipboard_set", id: "c", text: "x".repeat(4_150_000) })).toMatchObject({
    t: "err",
    code: "too_large",
  });
  expect(await peer.ask({ v: 1, t: "clipboard_set", id: "c", text: "fits" })).toMatchObject({ ok: true });
  expect(await peer.ask({ v: 1, t: "clipboard_get", id: "g" })).toMatchObject({ text: "fits", has_image: false });
  await answersPing(peer);
});

async function withProgram(content: Buffer, work: (path: string) => Promise<void>): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "vmapp-program-"));
  try {
    writeFileSync(join(folder, "program"), content);
    await work(join(folder, "program"));
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

test("B10: a client whose update is refused is ready all the same, and says why", () =>
  withProgram(randomBytes(100_000), async (program) => {
    await using daemon = await new StockDaemon({
      hello: { need_update: true },
      answer: async (peer, request) => {
        if (request.t !== "update") return false;
        await peer.take(Number(request.size));
        peer.send({ v: 1, t: "err", id: request.id, msg: "update failed" });
        return true;
      },
    }).listen();
    using client = new ControlClient({ dial: daemon.dial, program }).start();
    await ping(await client.ready({ timeoutMs: 5_000 }));
    expect(client.state).toMatchObject({ name: "ready", notice: expect.stringContaining("update failed") });
  }));

test("B10: a client without a program is ready though the guest wants an update", async () => {
  await using daemon = await new StockDaemon({ hello: { need_update: true } }).listen();
  using client = new ControlClient({ dial: daemon.dial, program: "/nowhere/program" }).start();
  await ping(await client.ready({ timeoutMs: 5_000 }));
  expect(daemon.hellos[0]).not.toHaveProperty("bin_hash");
});

test("B11: a guest that updates do not change is updated twice, then taken as it is", () =>
  withProgram(randomBytes(50_000), async (program) => {
    await using daemon = await new StockDaemon({ hello: { need_update: true } }).listen();
    using client = new ControlClient({ dial: daemon.dial, program, delay: () => 20 }).start();
    await ping(await client.ready({ timeoutMs: 10_000 }));
    expect(daemon.programs).toHaveLength(2);
    expect(daemon.programs[0]).toEqual(readFileSync(program));
    expect(client.state).toMatchObject({ name: "ready", notice: expect.stringContaining("update did not take") });
  }));

test("B3: a program over a stock guest's 10 MiB is not pushed, so that its stream is not ruined", () =>
  withProgram(Buffer.alloc(10 * 1024 * 1024), async (program) => {
    await using daemon = await new StockDaemon({ hello: { need_update: true } }).listen();
    using client = new ControlClient({ dial: daemon.dial, program }).start();
    await ping(await client.ready({ timeoutMs: 5_000 }));
    expect(daemon.programs).toHaveLength(0);
    expect(client.state).toMatchObject({ name: "ready", notice: expect.stringContaining("10485760") });
  }));

test("B17: a peer that closes in mid-reply harms nobody", async () => {
  await using daemon = await Daemon.start();
  writeFileSync(join(daemon.root, "big"), Buffer.alloc(64 * 1024 * 1024));
  for (let round = 0; round < 10; round++) {
    const peer = await daemon.greeted();
    peer.send({ v: 1, t: "file_get", id: "g", path: join(daemon.root, "big") });
    await peer.take(100_000);
    peer.close();
  }
  while (daemon.connectionCount > 0) await Bun.sleep(5);
  await answersPing(await daemon.greeted());
});

test.each(["path", "size", "perm", "id", "t", "offset", "sha256", "text", "v"])(
  "B18: a %s of any type ends in an answer or a clean close",
  async (field) => {
    await using daemon = await Daemon.start();
    const base = { v: 1, id: "1", path: join(daemon.root, "x"), size: 0 };
    for (const t of ["file_put", "file_get", "file_list", "clipboard_set"]) {
      for (const value of [null, true, -1, 1e300, "x", [], {}, [[]], "\0"]) {
        const peer = await daemon.greeted();
        const reply = await peer.ask({ ...base, t, [field]: value });
        if (reply === undefined || (reply.t === "err" && field === "size")) {
          peer.close();
          continue;
        }
        expect(typeof reply.t).toBe("string");
        await answersPing(peer);
        peer.close();
      }
    }
    await answersPing(await daemon.greeted());
  },
);

test("B19: an empty file is uploaded like any other", async () => {
  await using daemon = await Daemon.start();
  const control = await daemon.connect();
  await putFile(control, join(daemon.root, "empty"), { size: 0, pieces: [] });
  expect(readFileSync(join(daemon.root, "empty")).length).toBe(0);
});

test("B24: an upload into the longest name there is works, and its temporary file follows no planted link", async () => {
  await using daemon = await Daemon.start();
  const control = await daemon.connect();
  const name = "n".repeat(255);
  symlinkSync("/etc/hostname", join(daemon.root, name));
  const before = readFileSync("/etc/hostname");
  await putFile(control, join(daemon.root, name), { size: 3, pieces: [Buffer.from("abc")] });
  expect(readFileSync(join(daemon.root, name), "utf8")).toBe("abc");
  expect(readFileSync("/etc/hostname")).toEqual(before);
});

test("B27: neither paths nor contents are logged", async () => {
  await using daemon = await Daemon.start();
  const peer = await daemon.greeted();
  await peer.ask({ v: 1, t: "file_mkdir", id: "1", path: join(daemon.root, "secret-folder") });
  await peer.ask({ v: 1, t: "file_delete", id: "1", path: join(daemon.root, "secret-missing") });
  await peer.ask({ v: 1, t: "clipboard_set", id: "1", text: "secret-text" });
  peer.sendBytes(Buffer.from("\0\0\0\x08secret-x"));
  expect(await peer.endsWithin(5_000)).toBe(true);
  expect(JSON.stringify(daemon.logLines)).not.toContain("secret");
});

test("hazard 14: a source that shrinks or grows while it is uploaded is a typed error, and the connection is still in step", async () => {
  await using daemon = await Daemon.start();
  const control = await daemon.connect();
  const path = join(daemon.root, "f");
  writeFileSync(path, "old");
  for (const bytes of [50_000, 150_000]) {
    const source = { size: 100_000, pieces: [Buffer.alloc(bytes)] };
    await expect(putFile(control, path, source)).rejects.toMatchObject({ code: "changed" });
    await ping(control);
  }
  expect(readFileSync(path, "utf8")).toBe("old");
  expect(readdirSync(daemon.root)).toEqual(["f"]);
});

test("a download that was cut is continued where it was, over a new connection", async () => {
  await using daemon = await Daemon.start();
  const content = randomBytes(64 * 1024 * 1024);
  writeFileSync(join(daemon.root, "big"), content);
  let dials = 0;
  using files = new GuestFiles(async () => {
    const connection = await dial({ target: daemon.target, port: ports.control });
    const cutAfter = 20 * 1024 * 1024;
    let received = 0;
    if (++dials <= 2) {
      connection.socket.on("data", (chunk: Buffer) => {
        received += chunk.length;
        if (received > cutAfter) connection.socket.destroy();
      });
      connection.socket.pause();
    }
    return connection;
  });
  const folder = mkdtempSync(join(tmpdir(), "vmapp-resume-"));
  try {
    let moved = 0;
    await files.get(join(daemon.root, "big"), join(folder, "big"), { onProgress: ({ bytes }) => (moved = bytes) });
    expect(dials).toBe(3);
    expect(moved).toBe(content.length);
    expect(readFileSync(join(folder, "big")).equals(content)).toBe(true);
    expect(readdirSync(folder)).toEqual(["big"]);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}, 30_000);

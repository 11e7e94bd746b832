/** Receiving an update, item by item as in the protocol's list of conformance tests; what PID 1 makes of it is tested with PID 1. */
import { expect, test } from "bun:test";
import { execFileSync } from "node:child_process";
import { createHash, randomBytes } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pushUpdate } from "#host/clients/control/update.ts";
import { decodeMarker, encodeMarker, markerNames, programName } from "#protocol/update-markers.ts";
import { Daemon } from "../control/daemon.ts";
import { frame, type Json, type RawPeer } from "../control/raw-peer.ts";
import { answersPing, closedAndServing } from "../control/still-answers.ts";

const program = readFileSync("/bin/true");
const hashOf = (bytes: Uint8Array): string => createHash("sha256").update(bytes).digest("hex");
const hash = hashOf(program);

async function offering(daemon: Daemon, binHash: string): Promise<RawPeer> {
  const peer = await daemon.raw();
  expect(await peer.ask({ v: 1, t: "hello", bin_hash: binHash })).toMatchObject({ t: "hello", need_update: true });
  return peer;
}

function update(peer: RawPeer, bytes: Uint8Array, more: Json = {}): Promise<Json | undefined> {
  peer.sendBytes(Buffer.concat([frame({ v: 1, t: "update", id: "1", size: bytes.length, ...more }), bytes]));
  return peer.reply();
}

const stored = (daemon: Daemon): string[] =>
  existsSync(daemon.updateDirectory) ? readdirSync(daemon.updateDirectory).sort() : [];

test("update: a good program is stored, offered and answered in the protocol's words; then the connection ends", async () => {
  await using daemon = await Daemon.start();
  const peer = await offering(daemon, hash);
  expect(await update(peer, program)).toEqual({ v: 1, t: "ok", id: "1", msg: "updated, restarting" });
  expect(await peer.endsWithin(5_000)).toBe(true);
  expect(daemon.offers).toHaveLength(1);
  expect(stored(daemon)).toEqual(["offered", programName(hash), `${programName(hash)}.sha256`]);
  expect(decodeMarker(readFileSync(join(daemon.updateDirectory, "offered"), "utf8"))).toEqual({
    sha256: hash,
    size: program.length,
    base: "image",
  });
  const path = join(daemon.updateDirectory, programName(hash));
  expect(readFileSync(path)).toEqual(program);
  expect(statSync(path).mode & 0o777).toBe(0o755);
  expect(statSync(daemon.updateDirectory).mode & 0o777).toBe(0o700);
  execFileSync(path);
});

test("update: it may come at any later time, and its own hash will do where the hello had none", async () => {
  await using daemon = await Daemon.start();
  const peer = await daemon.greeted();
  await answersPing(peer);
  expect(await update(peer, program, { sha256: hash })).toMatchObject({ t: "ok" });
  expect(daemon.offers).toHaveLength(1);
});

test("update: our client pushes a program and sees the connection end", async () => {
  await using daemon = await Daemon.start();
  const control = await daemon.connect({ binHash: hash });
  expect(control.hello.need_update).toBe(true);
  expect(control.hello.max_update).toBe(256 * 1024 * 1024);
  let sent = 0;
  await pushUpdate(control, { path: "/bin/true", size: program.length, hash }, (bytes) => {
    sent = bytes;
  });
  expect(sent).toBe(program.length);
  expect(daemon.offers).toHaveLength(1);
});

const foreign = Buffer.from(program);
foreign.writeUInt16LE(8, 18);
const script = Buffer.from("#!/bin/sh\n");
const homeless = Buffer.from(program);
homeless.write("/lib65/", homeless.indexOf("/lib64/ld-"));

test.each([
  ["content that does not have the hash", randomBytes(program.length), hash, "announced hash"],
  ["the five bytes of the protocol's example", Buffer.from("7f454c4602", "hex"), undefined, "not an executable"],
  ["a script", script, undefined, "not an executable"],
  ["a program for another machine", foreign, undefined, "another processor"],
  ["a program whose loader is not there", homeless, undefined, "does not exist"],
  ["nothing", Buffer.alloc(0), undefined, "empty"],
])("update: %s is refused, nothing is kept and the session goes on", async (_, bytes, announced, reason) => {
  await using daemon = await Daemon.start();
  const peer = await offering(daemon, announced ?? hashOf(bytes));
  expect(await update(peer, bytes)).toMatchObject({
    t: "err",
    id: "1",
    msg: "update failed",
    reason: expect.stringContaining(reason),
  });
  await answersPing(peer);
  expect(stored(daemon)).toEqual([]);
  expect(daemon.offers).toEqual([]);
});

test("update: a hash other than the hello's, and none at all, are refused", async () => {
  await using daemon = await Daemon.start();
  const peer = await offering(daemon, "0".repeat(64));
  expect(await update(peer, program, { sha256: hash })).toMatchObject({ t: "err", code: "hash_mismatch" });
  await answersPing(peer);
  const other = await daemon.greeted();
  expect(await update(other, program)).toMatchObject({
    t: "err",
    code: "update_failed",
    reason: "no hash was announced",
  });
  await answersPing(other);
});

test.each([[-1], [0.5], ["5"], [null], [256 * 1024 * 1024 + 1]])(
  "update: a size of %j ends the connection",
  async (size) => {
    await using daemon = await Daemon.start();
    const peer = await offering(daemon, hash);
    expect(await peer.ask({ v: 1, t: "update", id: "1", size })).toMatchObject({ t: "err", id: "1" });
    await closedAndServing(peer, daemon);
    expect(daemon.offers).toEqual([]);
  },
);

test("update: an end in mid-program leaves nothing, and the old program serves", async () => {
  await using daemon = await Daemon.start();
  const peer = await offering(daemon, hash);
  peer.sendBytes(frame({ v: 1, t: "update", id: "1", size: program.length }));
  peer.sendBytes(program.subarray(0, 10_000));
  while (stored(daemon).length === 0) await Bun.sleep(5);
  peer.close();
  while (stored(daemon).length > 0) await Bun.sleep(5);
  await answersPing(await daemon.greeted());
  expect(daemon.offers).toEqual([]);
});

test("update: two at once are one, and the second is told", async () => {
  await using daemon = await Daemon.start();
  const first = await offering(daemon, hash);
  first.sendBytes(frame({ v: 1, t: "update", id: "1", size: program.length }));
  first.sendBytes(program.subarray(0, 10_000));
  while (stored(daemon).length === 0) await Bun.sleep(5);
  const second = await offering(daemon, hash);
  expect(await update(second, program)).toMatchObject({
    t: "err",
    code: "unavailable",
    reason: "another update is under way",
  });
  await answersPing(second);
  first.sendBytes(program.subarray(10_000));
  expect(await first.reply()).toMatchObject({ t: "ok" });
  expect(daemon.offers).toHaveLength(1);
});

test.skipIf(process.getuid?.() !== 0)(
  "update: a disk without room for it is told before anything is written",
  async () => {
    await using daemon = await Daemon.start();
    mkdirSync(daemon.updateDirectory);
    execFileSync("mount", ["-t", "tmpfs", "-o", "size=16k", "vmapp-test", daemon.updateDirectory]);
    try {
      const peer = await offering(daemon, hash);
      expect(await update(peer, program)).toMatchObject({
        t: "err",
        msg: "update failed",
        reason: expect.stringContaining("do not fit"),
      });
      await answersPing(peer);
      expect(stored(daemon)).toEqual([]);
    } finally {
      execFileSync("umount", [daemon.updateDirectory]);
    }
  },
);

test("update: the program that is running is not taken again", async () => {
  await using daemon = await Daemon.start({ executable: "/bin/true" });
  const peer = await daemon.raw();
  expect(await peer.ask({ v: 1, t: "hello", bin_hash: hash })).not.toHaveProperty("need_update");
  expect(await update(peer, program)).toMatchObject({ t: "err", reason: "this very program is running" });
  await answersPing(peer);
});

test("update: a program that PID 1 has given up is not taken again", async () => {
  await using daemon = await Daemon.start();
  mkdirSync(daemon.updateDirectory);
  writeFileSync(join(daemon.updateDirectory, markerNames.rejected), `${"0".repeat(64)}\n${hash}\n`);
  const peer = await offering(daemon, hash);
  expect(await update(peer, program)).toMatchObject({ t: "err", code: "update_rejected", msg: "update failed" });
  await answersPing(peer);
  expect(daemon.offers).toEqual([]);
});

test("update: a stored program may be running while it is stored again", async () => {
  await using daemon = await Daemon.start();
  const sleeper = readFileSync("/bin/sleep");
  const sleeperHash = hashOf(sleeper);
  expect(await update(await offering(daemon, sleeperHash), sleeper)).toMatchObject({ t: "ok" });
  const child = Bun.spawn([join(daemon.updateDirectory, programName(sleeperHash)), "60"]);
  try {
    expect(await update(await offering(daemon, sleeperHash), sleeper)).toMatchObject({ t: "ok" });
    expect(child.exitCode).toBeNull();
  } finally {
    child.kill();
    await child.exited;
  }
});

test("update: a program on trial is confirmed by its first answered hello, and the one before it is removed", async () => {
  await using first = await Daemon.start();
  await update(await offering(first, hash), program);
  const directory = first.updateDirectory;
  // What PID 1 does before it starts the program, here beside an older one.
  writeFileSync(join(directory, programName("1".repeat(64))), "old");
  writeFileSync(
    join(directory, markerNames.confirmed),
    encodeMarker({ sha256: "1".repeat(64), size: 3, base: "image" }),
  );
  renameSync(join(directory, markerNames.offered), join(directory, markerNames.pending));
  await using second = await Daemon.start({
    executable: join(directory, programName(hash)),
    updates: { directory, base: "image", announce: () => {} },
  });
  await second.raw();
  expect(readdirSync(directory)).toContain(markerNames.pending);
  await second.greeted();
  while (readdirSync(directory).includes(programName("1".repeat(64)))) await Bun.sleep(5);
  expect(readdirSync(directory).sort()).toEqual([
    markerNames.confirmed,
    programName(hash),
    `${programName(hash)}.sha256`,
  ]);
  expect(decodeMarker(readFileSync(join(directory, markerNames.confirmed), "utf8"))?.sha256).toBe(hash);
});

test("update: an agent that is not the program on trial confirms nothing", async () => {
  await using first = await Daemon.start();
  await update(await offering(first, hash), program);
  const directory = first.updateDirectory;
  renameSync(join(directory, markerNames.offered), join(directory, markerNames.pending));
  await answersPing(await first.greeted());
  await Bun.sleep(100);
  expect(readdirSync(directory)).toContain(markerNames.pending);
});

test.skipIf(process.getuid?.() !== 0)(
  "update: a disk that has room for the program and not for its records is told, and nothing of it stays",
  async () => {
    await using daemon = await Daemon.start();
    mkdirSync(daemon.updateDirectory);
    // One inode for the folder itself, one for the program.
    execFileSync("mount", ["-t", "tmpfs", "-o", "size=4m,nr_inodes=2", "vmapp-test", daemon.updateDirectory]);
    try {
      const peer = await offering(daemon, hash);
      expect(await update(peer, program)).toMatchObject({ t: "err", msg: "update failed", code: "no_space" });
      expect(stored(daemon)).toEqual([]);
      expect(daemon.offers).toEqual([]);
      await answersPing(peer);
    } finally {
      execFileSync("umount", [daemon.updateDirectory]);
    }
  },
);

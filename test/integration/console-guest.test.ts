import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Binary } from "bson";
import { pack } from "tar-stream";
import { runRestore } from "#agent/console/restore.ts";
import { Console, type ConsoleOptions } from "#host/clients/console/console.ts";
import { listChanges, makeChanges } from "#test/console/changes.ts";
import { type GuestRoot, guestRoot, guestRootObstacle } from "#test/console/guest-root.ts";
import { stdioServer } from "#test/console/servers.ts";

const obstacle = guestRootObstacle();
if (obstacle !== undefined) console.warn(`console sessions over an overlay are not tested: ${obstacle}`);

const text = (bytes: Uint8Array) => Buffer.from(bytes).toString();
const bytes = (value: string) => Buffer.from(value);

const base = {
  fileDeleted: "/etc/hostname",
  fileRenamed: "/etc/issue",
  directoryDeleted: "/etc/default",
  directoryReplaced: "/etc/init.d",
};

interface Guest extends AsyncDisposable {
  readonly session: Console;
  /** Runs a shell line that must succeed. */
  sh(line: string): Promise<string>;
}

async function guest({ layer, ...options }: Omit<ConsoleOptions, "server"> & { layer?: string } = {}): Promise<Guest> {
  const root: GuestRoot = guestRoot(layer);
  const session = await Console.open({ server: { command: root.command }, ...options }).catch((error) => {
    root[Symbol.dispose]();
    throw error;
  });
  return {
    session,
    async sh(line) {
      const run = await session.exec(["sh", "-c", line]);
      if (run.code !== 0) throw new Error(`${line} ended with ${run.code}: ${text(run.stderr)}`);
      return text(run.stdout);
    },
    async [Symbol.asyncDispose]() {
      await session.close();
      root[Symbol.dispose]();
    },
  };
}

describe.skipIf(obstacle !== undefined)("a session in a guest", () => {
  let shared: Guest;
  let directory: string;
  beforeAll(async () => {
    directory = mkdtempSync(join(tmpdir(), "vmapp-console-"));
    shared = await guest();
  });
  afterAll(async () => {
    await shared?.[Symbol.asyncDispose]();
    rmSync(directory, { recursive: true, force: true });
  });

  test("stands at / and gives its commands PATH and PWD and nothing of the server's", async () => {
    expect(shared.session.cwd).toBe("/");
    expect((await shared.sh("env")).trim().split("\n").sort()).toEqual([
      "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
      "PWD=/",
    ]);
  });

  test("gets back the very same snapshot when nothing has changed, and another when something has", async () => {
    await shared.sh("mkdir -p /root/same; echo 1 > /root/same/a; ln /root/same/a /root/same/b");
    const [first, second] = [await shared.session.snapshot(), await shared.session.snapshot()];
    expect(Buffer.compare(first, second)).toBe(0);
    await shared.session.stop();
    expect(Buffer.compare(await shared.session.snapshot(), first)).toBe(0);
    await shared.sh("echo 2 > /root/same/a");
    expect(Buffer.compare(await shared.session.snapshot(), first)).not.toBe(0);
  });

  test("mounts one tree inside another, keeps read-only ones from every writer, and unmounts them at a stop", async () => {
    using root = guestRoot();
    await using server = stdioServer({ command: root.command });
    const { peer } = server;
    const call = (method: string, params: object) => peer.call(method, params);
    await call("exec", { cmd: ["sh", "-c", "mkdir -p /root/project/out /root/out; echo notes > /root/project/notes"] });
    const mounts = ["file:///root/project:/work:ro", "file:///root/out:/work/out"];
    expect(await call("init", { mounts })).toMatchObject({ result: { cwd: "/" } });
    expect(await call("exec", { cmd: ["cat", "/work/notes"] })).toMatchObject({ result: { stdout: bytes("notes\n") } });
    expect(await call("write", { path: "/work/notes", data: new Binary(bytes("x")) })).toMatchObject({
      error: { code: -32007, message: expect.stringContaining("/work/notes: ") },
    });
    expect(await call("exec", { cmd: ["sh", "-c", "echo x > /work/new"] })).not.toMatchObject({ result: { code: 0 } });
    expect(await call("write", { path: "/work/out/new", data: new Binary(bytes("x")) })).toMatchObject({
      result: { size: 1 },
    });
    expect(await call("exec", { cmd: ["cat", "/root/out/new"] })).toMatchObject({ result: { stdout: bytes("x") } });
    peer.notify("stop");
    expect(await call("init", {})).toMatchObject({ result: { cwd: "/" } });
    expect(
      await call("exec", { cmd: ["sh", "-c", "grep -c ' /work' /proc/self/mountinfo; ls -d /work"] }),
    ).toMatchObject({
      result: { stdout: bytes("0\n") },
    });
  });

  test("refuses a place where something is mounted already, and a tag that nobody shares", async () => {
    for (const mount of [
      { source: "file:///etc", guestPath: "/tmp" },
      { source: "file:///etc", guestPath: "//tmp/" },
      { source: "file:///etc", guestPath: "/var/run" },
      { source: "virtiofs://nobody", guestPath: "/work" },
      { source: "file:///etc/passwd", guestPath: "/work" },
    ]) {
      await using own = await guest({ mounts: [mount] });
      await expect(own.sh("true")).rejects.toMatchObject({
        code: -32009,
        message: expect.stringContaining(mount.source),
      });
    }
  });

  test("refuses at init what a running guest cannot give", async () => {
    for (const [options, code] of [
      [{ mounts: [{ source: "https://x/y", guestPath: "/w" }] }, -32008],
      [{ network: false }, -32010],
      [{ ports: ["1:2"] }, -32010],
      [{ image: { type: "ref", ref: "a:b" } }, -32011],
      [{ memoryMib: 512 }, -32013],
    ] as const) {
      await expect(guest(options)).rejects.toMatchObject({ code });
    }
  });

  test("finds a full disk when it has filled its own, says so, and goes on", async () => {
    await shared.sh("mkdir -p /root/small; mount -t tmpfs -o size=1m tmpfs /root/small");
    await expect(shared.session.write("/root/small/big", Buffer.alloc(2 * 1024 * 1024))).rejects.toMatchObject({
      code: -32007,
      message: expect.stringMatching(/^\/root\/small\/big: .*space/),
    });
    await shared.sh("umount /root/small; rmdir /root/small");
    expect(await shared.sh("echo on")).toBe("on\n");
  });

  test("writes no snapshot larger than a frame, says both sizes, and goes on", async () => {
    await using own = await guest();
    await own.sh("head -c 70000000 /dev/urandom > /root/too-much");
    await expect(own.session.snapshot()).rejects.toMatchObject({
      code: -32603,
      message: expect.stringMatching(/written 7\d{7} bytes, which is more than the 67107840/),
    });
    await own.sh("rm /root/too-much");
    expect((await own.session.snapshot()).length).toBeGreaterThan(0);
  });

  test("leaves mount points out of its snapshot, and directories above them only when they hold nothing else", async () => {
    await using own = await guest({
      mounts: [{ source: "file:///etc", guestPath: "/made/for/mount", readOnly: true }],
    });
    await own.sh("mkdir /root/empty; echo x > /tmp/elsewhere; mkdir -p /made/own");
    const layer = join(directory, "mounts.tar");
    writeFileSync(layer, await own.session.snapshot());
    const names = Bun.spawnSync(["tar", "tf", layer]).stdout.toString().split("\n");
    expect(names).toContain("root/empty");
    expect(names).toContain("made/own");
    expect(names).toContain("made");
    expect(names.some((name) => /^(made\/for\/mount|tmp|run|proc|sys|dev|opt)(\/|$)/.test(name))).toBe(false);
    await own.sh("rmdir /made/own");
    writeFileSync(layer, await own.session.snapshot());
    expect(Bun.spawnSync(["tar", "tf", layer]).stdout.toString()).not.toContain("made");
  });

  test("comes back whole from its snapshot: before the boot, and onto a running guest", async () => {
    await using first = await guest();
    await first.sh(makeChanges(base));
    const wanted = await first.sh(listChanges(base));
    expect(wanted).toEndWith("one file\ngone\ngone\ngone\n");
    const snapshot = await first.session.snapshot();
    expect(snapshot.length).toBeLessThan(2_000_000);
    const layer = join(directory, "all.tar");
    writeFileSync(layer, snapshot);

    await using restored = await guest({ layer });
    expect(await restored.sh(listChanges(base))).toBe(wanted);
    expect(Buffer.compare(await restored.session.snapshot(), snapshot)).toBe(0);

    await using merged = await guest({ snapshot });
    expect(await merged.sh(listChanges(base))).toBe(wanted);
    await merged.sh("rm /root/w/kept");
    await merged.session.stop();
    // A snapshot is applied once, to the session that begins with it.
    expect(await merged.sh("ls /root/w | grep -c '^kept$' || true")).toBe("0\n");
  });

  test("snapshots while commands go on making and removing files, and what it writes can be restored", async () => {
    await using own = await guest();
    // They end by themselves, whatever becomes of the test: their processes are this machine's.
    const churn = `end=$(($(date +%s) + 20)); for w in 1 2 3; do (
      while [ ! -e /root/stop ] && [ "$(date +%s)" -lt $end ]; do
        mkdir -p /root/c$w/d; echo x > /root/c$w/d/f; ln /root/c$w/d/f /root/c$w/l; ln -s f /root/c$w/s; rm -r /root/c$w
      done) >/dev/null 2>&1 & done`;
    await own.sh(churn);
    for (let round = 0; round < 20; round++) {
      const layer = join(directory, "churn.tar");
      writeFileSync(layer, await own.session.snapshot());
      const target = join(directory, "churn");
      mkdirSync(target);
      await runRestore([layer, target]);
      rmSync(target, { recursive: true });
    }
    await own.sh("touch /root/stop");
  });

  test("writes a layer that GNU tar reads, holes and whiteouts in the common form", async () => {
    const names = Bun.spawnSync(["tar", "tf", join(directory, "all.tar")])
      .stdout.toString()
      .split("\n");
    expect(names).toContain("etc/.wh.hostname");
    expect(names).toContain("etc/.wh.default");
    expect(names.indexOf("etc/init.d/.wh..wh..opq")).toBe(names.indexOf("etc/init.d") + 1);
    const target = join(directory, "unpacked");
    Bun.spawnSync(["mkdir", target]);
    const { exitCode } = Bun.spawnSync([
      "tar",
      "xf",
      join(directory, "all.tar"),
      "-C",
      target,
      "root/w/sparse",
      "root/w/hard",
    ]);
    expect(exitCode).toBe(0);
    const { stdout } = Bun.spawnSync(["stat", "-c", "%s", join(target, "root/w/sparse")]);
    expect(stdout.toString()).toBe(`${5 * 1024 ** 3}\n`);
  });

  test("does not boot from a snapshot that cannot be put in place, and says what is wrong", async () => {
    await using own = await guest({ snapshot: Buffer.from("this is no tar ".repeat(100)) });
    await expect(own.sh("true")).rejects.toMatchObject({ code: -32002, message: expect.stringContaining("snapshot") });
    await expect(own.session.read("/etc/passwd")).rejects.toMatchObject({ code: -32002 });
  });

  test("puts no snapshot through what is mounted in the guest, and goes on", async () => {
    using root = guestRoot();
    await using server = stdioServer({ command: root.command });
    const { peer } = server;
    const mounted =
      "mkdir -p /root/in/at; mount -t tmpfs tmpfs /root/in/at; mkdir -m 755 /root/in/at/sub; echo kept > /root/in/at/file";
    await peer.call("exec", { cmd: ["sh", "-c", mounted] });
    for (const header of [
      { name: "root/in/.wh.at" },
      { name: "root/.wh.in" },
      { name: "root/in/at", type: "directory", mode: 0o700 },
      { name: "root/in/at/.wh..wh..opq" },
      { name: "root/in/.wh..wh..opq" },
      { name: "root/in/at/.wh.file" },
      { name: "root/in/at/file" },
      { name: "root/in/at/sub", type: "directory", mode: 0o700 },
    ] as const) {
      const archive = pack();
      archive.entry(header, "");
      archive.finalize();
      await peer.call("init", { snapshot: Buffer.concat(await Array.fromAsync(archive as AsyncIterable<Buffer>)) });
      expect(await peer.call("exec", { cmd: ["true"] })).toMatchObject({
        error: { code: -32002, message: expect.stringContaining("/root/in/at is a mount point") },
      });
    }
    await peer.call("init", {});
    expect(
      await peer.call("exec", { cmd: ["sh", "-c", "cat /root/in/at/file; stat -c %a /root/in/at/sub"] }),
    ).toMatchObject({ result: { stdout: bytes("kept\n755\n") } });
  });

  test("takes a snapshot as an array of integers as well", async () => {
    await using first = await guest();
    await first.sh("echo carried > /root/kept");
    const snapshot = await first.session.snapshot();
    using root = guestRoot();
    await using server = stdioServer({ command: root.command });
    await server.peer.call("init", { snapshot: [...snapshot] });
    expect(await server.peer.call("read", { path: "/root/kept" })).toMatchObject({
      result: { data: bytes("carried\n") },
    });
  });
});

/** The client's side of the protocol, item by item as in the list of conformance tests, against scripted daemons. */
import { expect, test } from "bun:test";
import { randomBytes } from "node:crypto";
import { existsSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ControlClient } from "#host/clients/control/client.ts";
import type { ClientState } from "#host/clients/control/client-state.ts";
import { ControlConnection } from "#host/clients/control/connection.ts";
import { ping, version } from "#host/clients/control/core.ts";
import { getFile, listFolder, putFile } from "#host/clients/control/files.ts";
import { createWaitReport } from "#host/clients/control/wait-report.ts";
import { GuestFiles } from "#host/files.ts";
import { frame, type RawPeer } from "../control/raw-peer.ts";
import { StockDaemon, stockFrame } from "../control/stock-daemon.ts";

const fast = (): number => 20;

async function withFolder(work: (folder: string) => Promise<void>): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "vmapp-client-"));
  try {
    await work(folder);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

async function until(condition: () => boolean): Promise<void> {
  const deadline = Date.now() + 10_000;
  while (!condition()) {
    if (Date.now() > deadline) throw new Error("what was waited for did not happen");
    await Bun.sleep(5);
  }
}

test("client: works against a stock daemon with its escapes, without codes, extensions and most caps", async () => {
  await using daemon = await new StockDaemon().listen();
  const control = await ControlConnection.open(await daemon.dial());
  expect(control.hello).toMatchObject({ name: "vphoned", ios: "18.6.2", caps: ["hid", "devmode", "file", "keychain"] });
  expect(control.hello.max_put).toBeUndefined();
  await ping(control);
  expect(await version(control)).toBe("abc1234");
  const content = randomBytes(200_000);
  await putFile(control, "/tmp/x", { size: content.length, pieces: [content] });
  expect(daemon.files.get("/tmp/x")).toEqual(content);
  const pieces: Uint8Array[] = [];
  await getFile(control, "/tmp/x", { onPiece: (piece) => void pieces.push(piece) });
  expect(Buffer.concat(pieces)).toEqual(content);
  expect((await listFolder(control, "/tmp")).entries.map(({ name }) => name)).toEqual(["x"]);
  await expect(getFile(control, "/nothing", { onPiece() {} })).rejects.toMatchObject({
    code: "refused",
    message: expect.stringContaining("open failed"),
  });
  await expect(getFile(control, "/tmp/x", { offset: 1, onPiece() {} })).rejects.toMatchObject({ code: "unavailable" });
  const ids = daemon.requests.map(({ id }) => id);
  expect(ids).toEqual(ids.map((_, index) => (index + 1).toString(16)));
  for (const request of daemon.requests) expect(Object.keys(request)).not.toContain("trailer");
  await ping(control);
  control.close();
});

test("client: files and folders go both ways with a stock daemon", () =>
  withFolder(async (folder) => {
    await using daemon = await new StockDaemon().listen();
    using files = new GuestFiles(daemon.dial);
    writeFileSync(join(folder, "a"), "content");
    await files.put(join(folder, "a"), "/data/a");
    await files.get("/data", join(folder, "back"));
    expect(readdirSync(join(folder, "back"))).toEqual(["a"]);
    await files.get("/data/a", join(folder, "a2"));
    expect(existsSync(join(folder, "a2"))).toBe(true);
  }));

test("client: a request that times out leaves the connection usable, and its late reply is dropped", async () => {
  const held: (() => void)[] = [];
  await using daemon = await new StockDaemon({
    answer: (peer, request) => {
      if (request.t !== "slow") return false;
      held.push(() => peer.sendBytes(stockFrame({ v: 1, t: "ok", id: request.id })));
      return true;
    },
  }).listen();
  const control = await ControlConnection.open(await daemon.dial());
  await expect(control.request({ t: "slow" }, { timeoutMs: 50 })).rejects.toMatchObject({ code: "timeout" });
  await ping(control);
  for (const send of held) send();
  await ping(control);
  control.close();
});

test("client: the late raw block of a request that was given up is skipped", async () => {
  let release = (): void => {};
  await using daemon = await new StockDaemon({
    answer: (peer, request) => {
      if (request.t !== "file_get") return false;
      release = () => {
        peer.sendBytes(stockFrame({ v: 1, t: "file_data", id: request.id, size: 100_000 }));
        peer.sendBytes(Buffer.alloc(100_000, 0xff));
      };
      return true;
    },
  }).listen();
  const control = await ControlConnection.open(await daemon.dial());
  await expect(control.request({ t: "file_get", path: "/x" }, { timeoutMs: 50 })).rejects.toMatchObject({
    code: "timeout",
  });
  release();
  await ping(control);
  control.close();
});

test("client: all pending requests fail when the connection is lost", async () => {
  await using daemon = await new StockDaemon({ answer: (_, request) => request.t === "slow" }).listen();
  const control = await ControlConnection.open(await daemon.dial());
  const requests = [1, 2, 3].map(() => control.request({ t: "slow" }, { timeoutMs: 60_000 }));
  const failed = Promise.allSettled(requests);
  await until(() => daemon.requests.length === 3);
  await daemon.stop();
  for (const outcome of await failed) expect(outcome).toMatchObject({ status: "rejected", reason: { code: "closed" } });
  await expect(ping(control)).rejects.toMatchObject({ code: "closed" });
});

test("client: connects again from 3 s on, never twice at once, and is ready again", async () => {
  const daemon = new StockDaemon();
  const states: ClientState[] = [];
  let most = 0;
  let open = 0;
  const delays: number[] = [];
  using client = new ControlClient({
    dial: async () => {
      open++;
      most = Math.max(most, open);
      try {
        return await daemon.dial();
      } finally {
        open--;
      }
    },
    onState: (state) => states.push(state),
    delay: (milliseconds) => {
      delays.push(milliseconds);
      return 20;
    },
  }).start();
  await until(() => delays.length >= 3);
  await daemon.listen();
  await ping(await client.ready({ timeoutMs: 5_000 }));
  expect(delays.slice(0, 3)).toEqual([3_000, 3_000, 3_000]);
  expect(most).toBe(1);
  expect(states.at(-1)?.name).toBe("ready");
  await daemon[Symbol.asyncDispose]();
  await until(() => client.state.name === "waiting");
  expect(client.hello).toBeUndefined();
});

test("client: what is waited for is said once, however many attempts it takes", async () => {
  await using daemon = new StockDaemon();
  const lines: string[] = [];
  let attempts = 0;
  using client = new ControlClient({
    dial: () => {
      attempts++;
      return daemon.dial();
    },
    onState: createWaitReport((line) => lines.push(line)),
    delay: fast,
  }).start();
  await until(() => attempts > 10);
  expect(lines).toHaveLength(1);
  expect(lines[0]).toContain("waiting for the guest: cannot connect to port 1337");
  await daemon.listen();
  await client.ready({ timeoutMs: 5_000 });
  expect(lines).toHaveLength(2);
  expect(lines[1]).toMatch(/ready after \d+ failed attempts/);
});

test("client: a stopped client's late attempts change nothing and leave no connection", async () => {
  await using daemon = await new StockDaemon().listen();
  let dialled = (): void => {};
  const gate = new Promise<void>((resolve) => {
    dialled = resolve;
  });
  const client = new ControlClient({
    dial: async () => {
      await gate;
      return daemon.dial();
    },
  }).start();
  const waiting = client.ready({ timeoutMs: 5_000 }).catch((error: unknown) => error);
  client[Symbol.dispose]();
  dialled();
  expect(await waiting).toMatchObject({ code: "closed" });
  await until(() => daemon.connectionCount === 0);
  expect(client.state.name).toBe("stopped");
});

test.each([
  ["that never answers", () => {}],
  ["that answers with another version", (peer: RawPeer) => peer.sendBytes(stockFrame({ v: 2, t: "hello" }))],
  ["that refuses ours", (peer: RawPeer) => peer.sendBytes(stockFrame({ v: 1, t: "err", msg: "version mismatch" }))],
  ["that sends no frame", (peer: RawPeer) => peer.sendBytes(Buffer.from("SSH-2.0-OpenSSH"))],
  ["that sends a frame of 4 MiB", (peer: RawPeer) => peer.sendBytes(Buffer.from([0, 0x40, 0, 0]))],
  ["that drips without end", (peer: RawPeer) => void setInterval(() => peer.sendBytes(Buffer.from([0])), 5).unref()],
  ["that hangs up", (peer: RawPeer) => peer.close()],
])("client: a hostile hello %s ends the handshake in time", async (_, hello) => {
  await using daemon = await new StockDaemon({ hello }).listen();
  const connection = await daemon.dial();
  await expect(ControlConnection.open(connection, { timeoutMs: 300 })).rejects.toMatchObject({ name: "ControlError" });
  expect(connection.socket.destroyed).toBe(true);
});

test.each([["2000"], [-1], [1.5], [null], [1e300]])(
  "client: a hostile size of %j ends the connection",
  async (size) => {
    await using daemon = await new StockDaemon({
      answer: (peer, request) => {
        if (request.t !== "file_get") return false;
        peer.sendBytes(frame({ v: 1, t: "file_data", id: request.id, size }));
        return true;
      },
    }).listen();
    const control = await ControlConnection.open(await daemon.dial());
    await expect(getFile(control, "/x", { onPiece() {} })).rejects.toMatchObject({ code: "closed" });
    expect(control.open).toBe(false);
  },
);

test("client: a huge size is not allocated, and what is too large to be read whole is refused", async () => {
  await using daemon = await new StockDaemon({
    answer: (peer, request) => {
      if (request.t !== "file_get") return false;
      peer.sendBytes(frame({ v: 1, t: "file_data", id: request.id, size: 2 ** 50 }));
      peer.sendBytes(Buffer.alloc(1_000_000));
      return true;
    },
  }).listen();
  const before = process.memoryUsage().rss;
  using files = new GuestFiles(daemon.dial);
  await expect(files.read("/x")).rejects.toMatchObject({ code: "too_large" });
  expect(process.memoryUsage().rss - before).toBeLessThan(100 * 1024 * 1024);
  await files.mkdir("/still-works");
});

test.each(["../x", "/etc/x", "a/b", "..", ".", "", "a\\b", "nul\0"])(
  "client: a guest that lists the name %j writes nothing on the host",
  (name) =>
    withFolder(async (folder) => {
      await using daemon = await new StockDaemon({
        answer: (peer, request) => {
          if (request.t !== "file_list" || request.path === "/") return false;
          const entry = { name, type: "file", link_target_dir: false, size: 1, perm: "644", mtime: 1 };
          peer.sendBytes(frame({ v: 1, t: "ok", id: request.id, entries: [{ ...entry, name: "good" }, entry] }));
          return true;
        },
      }).listen();
      daemon.files.set("/data/good", Buffer.from("x"));
      using files = new GuestFiles(daemon.dial);
      await expect(files.get("/data", join(folder, "in/here"))).rejects.toMatchObject({ code: "protocol" });
      expect(readdirSync(folder)).toEqual([]);
      await files.mkdir("/still-works");
    }),
);

test("client: a tree without end in the guest comes to one on the host", () =>
  withFolder(async (folder) => {
    await using daemon = await new StockDaemon({
      answer: (peer, request) => {
        if (request.t !== "file_list" || request.path === "/") return false;
        const entry = { name: "again", type: "dir", link_target_dir: false, size: 1, perm: "755", mtime: 1 };
        peer.sendBytes(frame({ v: 1, t: "ok", id: request.id, entries: [entry] }));
        return true;
      },
    }).listen();
    daemon.files.set("/data/again/f", Buffer.from("x"));
    using files = new GuestFiles(daemon.dial);
    await expect(files.get("/data", join(folder, "here"))).rejects.toMatchObject({ code: "protocol" });
    expect(readdirSync(folder)).toEqual([]);
  }));

test("client: a source that shrinks or grows while a stock daemon takes it ends the connection, for want of another way", async () => {
  await using daemon = await new StockDaemon().listen();
  for (const size of [10, 30]) {
    const control = await ControlConnection.open(await daemon.dial());
    await expect(putFile(control, "/x", { size, pieces: [Buffer.alloc(20)] })).rejects.toMatchObject({
      name: "ControlError",
    });
    expect(control.open).toBe(false);
  }
  expect(daemon.files.size).toBe(0);
});

import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { createHash } from "node:crypto";
import type { Socket } from "node:net";
import { closed, type Forwarder, readToEnd, startForwarder, waitUntil, write } from "./bridge-forwarder.ts";
import { pattern } from "./bridge-pattern.ts";

let forwarder: Forwarder;
beforeEach(async () => {
  forwarder = await startForwarder();
});
afterEach(() => forwarder.stop());

/** A host's connection and the app's end of it. */
async function pair(): Promise<{ host: Socket; app: Socket; stopListening: () => void }> {
  const { promise, resolve } = Promise.withResolvers<Socket>();
  const server = await forwarder.listen((socket) => {
    socket.pause();
    resolve(socket);
  });
  const host = await forwarder.connect();
  host.pause();
  return { host, app: await promise, stopListening: () => server.close() };
}

async function echoes(): Promise<void> {
  await forwarder.listen((socket) => socket.pipe(socket));
}

async function expectEcho(): Promise<void> {
  const host = await forwarder.connect();
  host.end("still here?");
  expect((await readToEnd(host)).toString()).toBe("still here?");
}

const blockBytes = 1024 * 1024;
const blocks = 1024;

const seeds = new Map<number, Buffer>();

/** A block that differs from every other one of the stream. */
function block(seed: number, index: number): Buffer {
  const bytes = Buffer.from(seeds.get(seed) ?? pattern(blockBytes, seed));
  seeds.set(seed, seeds.get(seed) ?? Buffer.from(bytes));
  bytes.writeUInt32BE(index, 0);
  return bytes;
}

async function sendGiB(socket: Socket, seed: number): Promise<void> {
  for (let index = 0; index < blocks; index += 1) await write(socket, block(seed, index));
  socket.end();
}

function hashOfGiB(seed: number): string {
  const hash = createHash("sha256");
  for (let index = 0; index < blocks; index += 1) hash.update(block(seed, index));
  return hash.digest("hex");
}

async function hashOf(socket: Socket): Promise<string> {
  const hash = createHash("sha256");
  const ended = new Promise((resolve, reject) => {
    socket.once("end", resolve);
    socket.once("error", reject);
  });
  socket.on("data", (chunk: Buffer) => hash.update(chunk));
  socket.resume();
  await ended;
  return hash.digest("hex");
}

describe("carrying bytes", () => {
  test("bytes arrive unchanged in both directions at once, in whatever pieces they are written", async () => {
    const { host, app } = await pair();
    const [down, up] = [pattern(3_000_001, 1), pattern(2_000_003, 2)];
    const send = async (socket: Socket, bytes: Buffer, step: number) => {
      for (let at = 0; at < bytes.length; at += step) await write(socket, bytes.subarray(at, at + step));
      socket.end();
    };
    const [gotUp, gotDown] = await Promise.all([
      readToEnd(app),
      readToEnd(host),
      send(host, up, 777),
      send(app, down, 70_001),
    ]);
    expect(gotUp.equals(up)).toBe(true);
    expect(gotDown.equals(down)).toBe(true);
  });

  test("1 GiB each way at once arrives whole, by its SHA-256", async () => {
    const { host, app } = await pair();
    const [up, down] = await Promise.all([hashOf(app), hashOf(host), sendGiB(host, 1), sendGiB(app, 2)]);
    expect(up).toBe(hashOfGiB(1));
    expect(down).toBe(hashOfGiB(2));
  }, 120_000);

  test("bursts that are copied and bursts that are spliced keep their order, also past a reader that pauses", async () => {
    const { host, app } = await pair();
    const sizes = [100, 16_384, 16_383, 300_000, 16_385, 1, 700_000, 20_000];
    const bytes = pattern(sizes.reduce((sum, size) => sum + size, 0) * 8, 9);
    const gotAll = readToEnd(app);
    let at = 0;
    for (let index = 0; at < bytes.length; index += 1) {
      if (index % 3 === 0) app.pause();
      const size = sizes[index % sizes.length] as number;
      const written = write(host, bytes.subarray(at, at + size));
      at += size;
      await new Promise((resolve) => setTimeout(resolve, 5));
      app.resume();
      await written;
    }
    host.end();
    expect((await gotAll).equals(bytes)).toBe(true);
  });

  test("200 connections at once each get their own bytes back", async () => {
    await echoes();
    const all = Array.from({ length: 200 }, async (_, index) => {
      const host = await forwarder.connect();
      const bytes = pattern(50_000 + index, index + 1);
      host.end(bytes);
      return (await readToEnd(host)).equals(bytes);
    });
    expect((await Promise.all(all)).every(Boolean)).toBe(true);
    await waitUntil(() => forwarder.descriptors() < 60, "the connections' descriptors to be closed");
  });

  test("200 connections stay open side by side, and one more talks as before", async () => {
    await echoes();
    const hosts = await Promise.all(Array.from({ length: 200 }, () => forwarder.connect()));
    for (const [index, host] of hosts.entries()) {
      const answer = new Promise((resolve) => host.once("data", resolve));
      host.write(`hello ${index}`);
      expect(String(await answer)).toBe(`hello ${index}`);
    }
    await expectEcho();
  });

  test("connections over the limit of 256 are closed, the others go on", async () => {
    await echoes();
    const hosts = await Promise.all(Array.from({ length: 256 }, () => forwarder.connect()));
    await waitUntil(() => forwarder.descriptors() > 512, "256 connections");
    // Closed at once, it may be gone before its connect is answered.
    const extra = await forwarder.connect().catch(() => undefined);
    if (extra !== undefined) await closed(extra);
    await forwarder.logged("there are 256 connections already");
    hosts[0]?.destroy();
    await waitUntil(() => forwarder.descriptors() < 540, "a place");
    await new Promise((resolve) => setTimeout(resolve, 50));
    await expectEcho();
  });
});

describe("waiting for the app", () => {
  test("what the host says before the app listens is neither read ahead nor lost", async () => {
    const host = await forwarder.connect();
    const bytes = pattern(4_000_000, 3);
    host.end(bytes);
    await new Promise((resolve) => setTimeout(resolve, 700));
    expect(host.writableLength).toBeGreaterThan(3_000_000);
    const { promise, resolve } = Promise.withResolvers<Buffer>();
    await forwarder.listen((socket) => {
      resolve(readToEnd(socket));
      socket.end("thanks");
    });
    expect((await promise).equals(bytes)).toBe(true);
    expect((await readToEnd(host)).toString()).toBe("thanks");
    expect(forwarder.log().match(/waiting for the app/g)).toHaveLength(1);
    await forwarder.logged("the app is there");
  });

  test("a host that closed before the app came is still delivered", async () => {
    const host = await forwarder.connect();
    await write(host, "a last word");
    host.destroy();
    await new Promise((resolve) => setTimeout(resolve, 200));
    const { promise, resolve } = Promise.withResolvers<Buffer>();
    await forwarder.listen((socket) => resolve(readToEnd(socket)));
    expect((await promise).toString()).toBe("a last word");
  });

  test("of a host that connects again and again only the live connection reaches the app, and the last in order", async () => {
    for (let attempt = 0; attempt < 5; attempt += 1) {
      const gone = await forwarder.connect();
      await write(gone, `attempt ${attempt}`);
      gone.destroy();
    }
    const live = await forwarder.connect();
    await write(live, "live");
    await new Promise((resolve) => setTimeout(resolve, 200));
    const heard: string[] = [];
    await forwarder.listen((socket) => socket.on("data", (chunk: Buffer) => heard.push(chunk.toString())));
    await waitUntil(() => heard.length > 0, "the app to hear the host");
    await new Promise((resolve) => setTimeout(resolve, 200));
    expect(heard).toEqual(["live"]);
  });

  test("connections that waited reach the app in the order of their arrival", async () => {
    const hosts: Socket[] = [];
    for (let index = 0; index < 20; index += 1) {
      const host = await forwarder.connect();
      await write(host, String(index));
      hosts.push(host);
    }
    const heard: string[] = [];
    await forwarder.listen((socket) => socket.once("data", (chunk: Buffer) => heard.push(chunk.toString())));
    await waitUntil(() => heard.length === 20, "20 connections");
    expect(heard).toEqual(hosts.map((_, index) => String(index)));
  });

  test("after 30 s without an app the connection is closed, and the next one is served", async () => {
    const started = Date.now();
    const host = await forwarder.connect();
    host.write("anybody?");
    await closed(host);
    expect(Date.now() - started).toBeGreaterThan(29_000);
    expect(Date.now() - started).toBeLessThan(35_000);
    await forwarder.logged("no app listens on");
    await echoes();
    await expectEcho();
  }, 60_000);

  test("a connection on which neither side says anything is dropped after 10 s, one that has spoken is kept", async () => {
    await echoes();
    const spoke = await forwarder.connect();
    spoke.write("x");
    const silent = await forwarder.connect();
    await closed(silent);
    expect(spoke.destroyed).toBe(false);
    await expectEcho();
  }, 20_000);
});

test("64 MiB each way arrive unchanged where what goes to the host is copied", async () => {
  const copying = await startForwarder({ copies: true });
  try {
    await copying.listen((socket) => socket.pipe(socket));
    const bytes = pattern(64 * 1024 * 1024, 4);
    const host = await copying.connect();
    host.end(bytes);
    expect((await readToEnd(host)).equals(bytes)).toBe(true);
  } finally {
    await copying.stop();
  }
}, 20_000);

describe("back-pressure", () => {
  for (const side of ["the app", "the host"] as const) {
    test(`a reader that stops for 10 s costs the forwarder less than 4 MiB: ${side}`, async () => {
      const { host, app } = await pair();
      const [writer, reader] = side === "the app" ? [host, app] : [app, host];
      const warmUp = pattern(4_000_000, 5);
      const warmed = new Promise<void>((resolve) => {
        let seen = 0;
        const count = (chunk: Buffer) => {
          seen += chunk.length;
          if (seen < warmUp.length) return;
          reader.off("data", count);
          reader.pause();
          resolve();
        };
        reader.on("data", count);
      });
      reader.resume();
      await write(writer, warmUp);
      await warmed;
      const before = forwarder.residentKib();

      const bytes = pattern(64 * 1024 * 1024, 6);
      writer.end(bytes);
      await new Promise((resolve) => setTimeout(resolve, 10_000));
      // Held at most: 1 MiB in the forwarder, and what two sockets' buffers take.
      expect(writer.writableLength).toBeGreaterThan(bytes.length - 4 * 1024 * 1024);
      expect(forwarder.residentKib() - before).toBeLessThan(4096);
      expect((await readToEnd(reader)).equals(bytes)).toBe(true);
    }, 40_000);
  }

  test("a connection that nobody reads does not slow another one down", async () => {
    await echoes();
    const stuck = await forwarder.connect();
    stuck.pause();
    stuck.write(pattern(8 * 1024 * 1024, 7));
    await new Promise((resolve) => setTimeout(resolve, 200));
    for (let index = 0; index < 20; index += 1) await expectEcho();
    expect(stuck.writableLength).toBeGreaterThan(0);
  });
});

describe("the process", () => {
  test("with connections that are open and silent it takes no processor time, also after much traffic", async () => {
    await echoes();
    const hosts = await Promise.all(Array.from({ length: 20 }, () => forwarder.connect()));
    for (let round = 0; round < 200; round += 1) {
      await Promise.all(
        hosts.map((host) => {
          const answer = new Promise((resolve) => host.once("data", resolve));
          host.write("ping");
          return answer;
        }),
      );
    }
    // The engine may still compile what was hot.
    await new Promise((resolve) => setTimeout(resolve, 1_000));
    const before = forwarder.processorTicks();
    await new Promise((resolve) => setTimeout(resolve, 3_000));
    expect(forwarder.processorTicks() - before).toBeLessThan(10);
  }, 20_000);

  test("SIGTERM ends it in the middle of a transfer", async () => {
    const { host, app } = await pair();
    host.write(pattern(8 * 1024 * 1024, 8));
    app.once("data", () => {});
    process.kill(forwarder.pid, "SIGTERM");
    expect(await forwarder.ended).toBe("SIGTERM");
  });

  test("10 000 reconnects leak neither descriptors nor memory", async () => {
    await echoes();
    const once = async () => {
      const host = await forwarder.connect();
      host.end("ping");
      expect((await readToEnd(host)).length).toBe(4);
    };
    const rounds = async (count: number) => {
      for (let done = 0; done < count; done += 20) await Promise.all(Array.from({ length: 20 }, once));
    };
    // The engine compiles what is hot, and its memory settles after some ten thousand.
    await rounds(30_000);
    const descriptors = forwarder.descriptors();
    const resident = forwarder.residentKib();
    await rounds(10_000);
    await waitUntil(() => forwarder.descriptors() <= descriptors, "the descriptors to be closed");
    expect(forwarder.residentKib() - resident).toBeLessThan(2048);
  }, 120_000);
});

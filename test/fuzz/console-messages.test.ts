/** Damaged frames and documents of the console: typed errors only, bounded memory, and BSON that another library agrees on. */
import { expect, setDefaultTimeout, test } from "bun:test";
import { BSON } from "bson";
import { DocumentError } from "#protocol/console/document-reader.ts";
import { FrameInbox, TruncatedFrameError } from "#protocol/console/frame-inbox.ts";
import { decodeMessage, encodeMessage, type Message, MessageError } from "#protocol/console/message.ts";
import { FrameLimitError } from "#protocol/framing.ts";
import { socketPeer } from "#test/console/servers.ts";
import { startLocalAgent } from "#test/shell/agent.ts";
import { chooseSeed, damage, inputCount, pieces, Random } from "#test/shell/mutations.ts";

setDefaultTimeout(1_200_000);

const seed = chooseSeed();
const inputs = inputCount(1_000_000);

const recipe = {
  base: "b",
  steps: [{ run: "r" }, { copy: { src: "s", dst: "/d" } }, { env: { key: "k", value: "v" } }, { workdir: "/" }],
};
const messages: readonly Message[] = [
  { kind: "request", id: 1n, method: "exec", params: { cmd: ["sh", "-c", "echo"], timeoutMs: 5 } },
  { kind: "request", id: 2n, method: "write", params: { path: "p", data: Buffer.from("data"), offset: 7 } },
  { kind: "request", id: 3n, method: "build_image", params: { recipe, ref: "a:b" } },
  {
    kind: "request",
    id: 4n,
    method: "init",
    params: {
      image: { type: "ref", ref: "a:b" },
      snapshot: Buffer.from("tar"),
      network: false,
      ports: [],
      vcpus: 1,
      memoryMib: 2,
      gpu: true,
      gpuMemoryMib: 3,
      diskGib: 4,
      mounts: [{ url: "file:///a", scheme: "file", guestPath: "/b", readOnly: true }],
    },
  },
  { kind: "notification", method: "stop" },
  {
    kind: "result",
    id: 5n,
    method: "exec",
    result: { code: 0, stdout: Buffer.from("o"), stderr: Buffer.from("e"), truncated: true },
  },
  { kind: "result", id: 6n, method: "list_images", result: { images: [{ digest: "sha256:0", refs: ["a:b"] }] } },
  { kind: "error", id: 7n, error: { code: -32000, message: "m" } },
];
const payloads = messages.map((message) => Buffer.concat(encodeMessage(message)).subarray(4));
// Types that no message has, which a reader skips by their length.
payloads.push(
  Buffer.from(
    BSON.serialize({
      jsonrpc: "2.0",
      method: "quit",
      a: /x/i,
      b: new BSON.Code("f", { x: 1 }),
      c: new BSON.ObjectId(),
      d: new Date(0),
      e: BSON.Decimal128.fromString("1"),
      f: new BSON.Timestamp({ t: 1, i: 2 }),
      g: new BSON.MinKey(),
      h: [null, [1.5]],
    }),
  ),
);

/** A damaged document often has a wrong length; half of them get the right one back, to reach what is behind it. */
function damagedPayload(random: Random): Buffer {
  const damaged = Buffer.from(damage(random.pick(payloads), random));
  if (damaged.length >= 5 && random.below(2) === 0) {
    damaged.writeInt32LE(damaged.length, 0);
    damaged[damaged.length - 1] = 0;
  }
  return damaged;
}

function libraryReads(payload: Buffer): boolean {
  try {
    BSON.deserialize(payload, { validation: { utf8: false } });
    return true;
  } catch {
    return false;
  }
}

test(`${inputs} damaged documents: a message, or a typed error; what is read can be written and read again`, () => {
  const random = new Random(seed);
  const counts = { message: 0, refused: 0, notBson: 0 };
  for (let index = 0; index < inputs; index++) {
    const payload = damagedPayload(random);
    try {
      const message = decodeMessage(payload);
      counts.message++;
      if (index % 16 === 0) {
        const again = decodeMessage(Buffer.concat(encodeMessage(message)).subarray(4));
        expect(again).toEqual(message);
      }
    } catch (error) {
      if (error instanceof MessageError) counts.refused++;
      else if (error instanceof DocumentError) {
        counts.notBson++;
        // The library is not stricter than the contract's reader where it matters, nor the reader than BSON.
        if (index % 16 === 0 && libraryReads(payload))
          throw new Error(`seed ${seed}, input ${index}: BSON was refused: ${payload.toString("hex")}`, {
            cause: error,
          });
      } else throw new Error(`seed ${seed}, input ${index}, ${payload.toString("hex")}`, { cause: error });
    }
  }
  for (const count of Object.values(counts)) expect(count).toBeGreaterThan(inputs / 50);
});

test(`${inputs} damaged streams: whole frames in order, or a typed error; memory stays bounded`, async () => {
  const random = new Random(seed + 1);
  const frames = messages.map((message) => Buffer.concat(encodeMessage(message)));
  Bun.gc(true);
  const before = process.memoryUsage.rss();
  const counts = { frames: 0, refused: 0 };
  for (let index = 0; index < inputs; index++) {
    const damaged = damage(Buffer.concat([random.pick(frames), random.pick(frames)]), random);
    const inbox = new FrameInbox(() => {});
    for (const piece of pieces(damaged, random)) inbox.push(piece);
    inbox.end();
    try {
      while ((await inbox.next()) !== undefined) counts.frames++;
    } catch (error) {
      if (!(error instanceof FrameLimitError || error instanceof TruncatedFrameError)) {
        throw new Error(`seed ${seed}, input ${index}, ${Buffer.from(damaged).toString("hex")}`, { cause: error });
      }
      counts.refused++;
    }
  }
  Bun.gc(true);
  expect(process.memoryUsage.rss() - before).toBeLessThan(512 * 2 ** 20);
  expect(counts.frames).toBeGreaterThan(inputs / 2);
  expect(counts.refused).toBeGreaterThan(inputs / 20);
});

test("a frame of 64 MiB of the smallest members is read in bounded memory and time", () => {
  const bytes = Buffer.alloc(64 * 2 ** 20, Buffer.from([0x0a, 0]));
  bytes.writeInt32LE(bytes.length, 0);
  bytes[bytes.length - 2] = 0x61;
  bytes.set([0x0a, 0x61, 0, 0], bytes.length - 4);
  Bun.gc(true);
  const before = process.memoryUsage.rss();
  const start = performance.now();
  expect(() => decodeMessage(bytes)).toThrow(MessageError);
  expect(performance.now() - start).toBeLessThan(15_000);
  expect(process.memoryUsage.rss() - before).toBeLessThan(256 * 2 ** 20);
});

test("a running agent lives through hostile connections and serves the next one", async () => {
  const random = new Random(seed + 2);
  const agent = await startLocalAgent();
  try {
    for (let round = 0; round < 300; round++) {
      using connection = await socketPeer(agent.directory);
      // Requests that would run something stay out: what is damaged must not be a command for this machine.
      const payload = damage(random.pick(payloads.slice(4)), random);
      const header = Buffer.alloc(4);
      header.writeUInt32BE(random.below(10) > 0 ? payload.length : random.below(2 ** 32));
      connection.peer.sendBytes(Buffer.concat([header, payload]));
      if (random.below(2) === 0) connection.peer.end();
      if (round % 20 === 0) {
        using healthy = await socketPeer(agent.directory);
        expect(await healthy.peer.call("version")).toMatchObject({ result: { version: "1" } });
      }
    }
    using last = await socketPeer(agent.directory);
    expect(await last.peer.call("exec", { cmd: ["echo", "alive"] })).toMatchObject({ result: { code: 0 } });
    const status = await Bun.file(`/proc/${agent.pid}/status`).text();
    expect(Number(/VmRSS:\s+(\d+) kB/.exec(status)?.[1])).toBeLessThan(300 * 1024);
  } catch (error) {
    throw new Error(`seed ${seed}`, { cause: error });
  } finally {
    await agent.stop();
  }
});

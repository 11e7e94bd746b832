import { expect, test } from "bun:test";
import fc from "fast-check";
import { maxFrameBytes } from "#protocol/control/limits.ts";
import { ControlStreamError, encodeMessage } from "#protocol/control/message.ts";
import { ControlReader } from "#protocol/control/reader.ts";
import { FrameLimitError } from "#protocol/framing.ts";

interface Flow {
  paused: boolean;
}

function createReader(): { reader: ControlReader; flow: Flow } {
  const flow: Flow = { paused: false };
  const reader = new ControlReader({
    pause: () => {
      flow.paused = true;
    },
    resume: () => {
      flow.paused = false;
    },
  });
  return { reader, flow };
}

test("messages and raw blocks come out whole however the stream was chunked", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.record({ text: fc.string(), raw: fc.uint8Array({ maxLength: 50 }) }), { maxLength: 6 }),
      fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 1 }),
      async (messages, cuts) => {
        const { reader } = createReader();
        const wire = Buffer.concat(
          messages.flatMap(({ text, raw }) => [encodeMessage({ t: "x", text, size: raw.length }), raw]),
        );
        let cut = 0;
        for (let at = 0; at < wire.length; cut++) {
          const length = cuts[cut % cuts.length] as number;
          reader.push(wire.subarray(at, at + length));
          at += length;
        }
        reader.end();
        for (const { text, raw } of messages) {
          expect(await reader.frame()).toEqual({ v: 1, t: "x", text, size: raw.length });
          reader.expectRaw(raw.length);
          const pieces: Uint8Array[] = [];
          for (let piece = await reader.raw(); piece !== undefined; piece = await reader.raw()) pieces.push(piece);
          expect(Buffer.concat(pieces)).toEqual(Buffer.from(raw));
        }
        expect(await reader.frame()).toBeUndefined();
      },
    ),
  );
});

test("a raw block that nobody reads is skipped before the next message", async () => {
  const { reader } = createReader();
  reader.push(Buffer.concat([encodeMessage({ t: "a" }), Buffer.alloc(1000, 0xff), encodeMessage({ t: "b" })]));
  await reader.frame();
  reader.expectRaw(1000);
  expect(await reader.frame()).toEqual({ v: 1, t: "b" });
});

test("a frame one byte below 4 MiB is read; 4 MiB and 0 are refused from the header alone", async () => {
  const { reader } = createReader();
  const largest = Buffer.from(`{"t":"${"x".repeat(maxFrameBytes - 8)}"}`);
  expect(largest.length).toBe(maxFrameBytes);
  const header = Buffer.alloc(4);
  header.writeUInt32BE(maxFrameBytes);
  reader.push(Buffer.concat([header, largest]));
  expect(await reader.frame()).toHaveProperty("t");
  for (const length of [0, maxFrameBytes + 1, 0xffffffff]) {
    const { reader: other } = createReader();
    const bad = Buffer.alloc(4);
    bad.writeUInt32BE(length);
    other.push(bad);
    await expect(other.frame()).rejects.toBeInstanceOf(FrameLimitError);
  }
});

test("a writer refuses a message that the other end would not read", () => {
  expect(() => encodeMessage({ t: "x".repeat(maxFrameBytes) })).toThrow(FrameLimitError);
});

test("an end inside a header, a frame or a raw block is an error, one between messages is not", async () => {
  const whole = encodeMessage({ t: "a" });
  for (const length of [1, 4, 7]) {
    const { reader } = createReader();
    reader.push(whole.subarray(0, length));
    reader.end();
    await expect(reader.frame()).rejects.toBeInstanceOf(ControlStreamError);
  }
  const { reader } = createReader();
  reader.push(whole);
  reader.end();
  await reader.frame();
  reader.expectRaw(1);
  await expect(reader.raw()).rejects.toBeInstanceOf(ControlStreamError);
});

test("while nobody reads, the sender is held back after half a megabyte and let go on when somebody does", async () => {
  const { reader, flow } = createReader();
  reader.push(encodeMessage({ t: "a" }));
  for (let sent = 0; sent < 600 * 1024; sent += 64 * 1024) reader.push(Buffer.alloc(64 * 1024));
  expect(flow.paused).toBe(true);
  await reader.frame();
  reader.expectRaw(10 * 1024 * 1024);
  const readOn = (async () => {
    for (let piece = await reader.raw(); piece !== undefined; piece = await reader.raw());
  })();
  while (flow.paused) await Promise.resolve();
  reader.end();
  await expect(readOn).rejects.toBeInstanceOf(ControlStreamError);
});

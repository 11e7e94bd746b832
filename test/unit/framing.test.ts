import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { encodeFrame, FrameDecoder, FrameLimitError } from "#protocol/framing.ts";

const seed = Number(process.env.VMAPP_FUZZ_SEED ?? Date.now() % 1_000_000_000);

function header(length: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(length);
  return bytes;
}

function drain(decoder: FrameDecoder): Uint8Array[] {
  const frames: Uint8Array[] = [];
  for (let frame = decoder.next(); frame !== undefined; frame = decoder.next()) frames.push(frame.slice());
  return frames;
}

describe("writing a length-prefixed frame", () => {
  test("puts the big-endian length and the payload in one buffer", () => {
    expect([...encodeFrame(Uint8Array.of(0xaa, 0xbb), 10)]).toEqual([0, 0, 0, 2, 0xaa, 0xbb]);
  });

  test.each([
    [9, true],
    [10, true],
    [11, false],
  ])("a payload of %d bytes under a limit of 10 is taken: %p", (bytes, taken) => {
    const write = () => encodeFrame(new Uint8Array(bytes), 10);
    if (taken) expect(write().length).toBe(bytes + 4);
    else expect(write).toThrow("a frame of 11 bytes exceeds the limit of 10");
  });

  test("an empty payload is refused", () => {
    expect(() => encodeFrame(new Uint8Array(0), 10)).toThrow("a frame of length 0 is not allowed");
  });
});

describe("reading length-prefixed frames", () => {
  test.each([1, 9, 10])("a length of %d under a limit of 10 is taken", (bytes) => {
    const decoder = new FrameDecoder(10);
    decoder.push(header(bytes));
    expect(decoder.next()).toBeUndefined();
    decoder.push(new Uint8Array(bytes).fill(5));
    expect(decoder.next()?.length).toBe(bytes);
    expect(decoder.atBoundary).toBe(true);
  });

  test.each([0, 11, 0x7fffffff, 0xffffffff])("a length of %d is refused as soon as its header is there", (length) => {
    const decoder = new FrameDecoder(10);
    decoder.push(header(length));
    try {
      decoder.next();
      expect.unreachable();
    } catch (error) {
      expect(error).toBeInstanceOf(FrameLimitError);
      expect(error).toMatchObject({ length, limit: 10 });
    }
  });

  test("a frame cut anywhere is not given out, and not taken for a boundary", () => {
    const frame = encodeFrame(Buffer.from("hello"), 100);
    for (let cut = 1; cut < frame.length; cut += 1) {
      const decoder = new FrameDecoder(100);
      decoder.push(frame.subarray(0, cut));
      expect(decoder.next()).toBeUndefined();
      expect(decoder.atBoundary).toBe(false);
      decoder.push(frame.subarray(cut));
      expect(Buffer.from(decoder.next() ?? []).toString()).toBe("hello");
      expect(decoder.atBoundary).toBe(true);
    }
  });

  test.each([1024 * 1024 - 1, 1024 * 1024, 1024 * 1024 + 1])(
    "a payload of %d bytes arrives whole in odd pieces",
    (size) => {
      const payload = Buffer.alloc(size);
      for (let index = 0; index < size; index += 997) payload[index] = index;
      const stream = Buffer.concat([encodeFrame(payload, 2 ** 22), encodeFrame(Buffer.from("next"), 2 ** 22)]);
      const decoder = new FrameDecoder(2 ** 22);
      const frames: Uint8Array[] = [];
      for (let offset = 0; offset < stream.length; offset += 65_537) {
        decoder.push(stream.subarray(offset, offset + 65_537));
        frames.push(...drain(decoder));
      }
      expect(frames.map(({ length }) => length)).toEqual([size, 4]);
      expect(Buffer.from(frames[0] ?? []).equals(payload)).toBe(true);
      expect(decoder.atBoundary).toBe(true);
    },
  );

  test("a header alone that announces the largest payload takes no such memory", () => {
    const limit = 1 << 30;
    const before = process.memoryUsage().rss;
    const decoders = Array.from({ length: 16 }, () => {
      const decoder = new FrameDecoder(limit);
      decoder.push(header(limit));
      expect(decoder.next()).toBeUndefined();
      return decoder;
    });
    expect(process.memoryUsage().rss - before).toBeLessThan(200 * 2 ** 20);
    expect(decoders.every(({ atBoundary }) => !atBoundary)).toBe(true);
  });

  test("frames come out the same under any chunking", () => {
    const payloads = fc.array(fc.uint8Array({ minLength: 1, maxLength: 64 }), { maxLength: 12 });
    fc.assert(
      fc.property(payloads, fc.array(fc.integer({ min: 1, max: 40 })), (wanted, cuts) => {
        const stream = Buffer.concat(wanted.map((payload) => encodeFrame(payload, 64)));
        const decoder = new FrameDecoder(64);
        const got: Uint8Array[] = [];
        let offset = 0;
        for (const cut of [...cuts, stream.length]) {
          decoder.push(stream.subarray(offset, offset + cut));
          got.push(...drain(decoder));
          offset += cut;
        }
        expect(got.map((frame) => [...frame])).toEqual(wanted.map((payload) => [...payload]));
        expect(decoder.atBoundary).toBe(true);
      }),
      { seed, numRuns: 500 },
    );
  });
});

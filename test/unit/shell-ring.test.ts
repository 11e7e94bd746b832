import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { OutputRing, ringBytes } from "#agent/shell/ring.ts";

const seed = Number(process.env.VMAPP_FUZZ_SEED ?? Date.now() % 1_000_000_000);

/** Everything from a position on, as a client would be given it. */
function readAll(ring: OutputRing, from: number): { text: string; types: string[] } {
  let text = "";
  const types: string[] = [];
  for (let piece = ring.readFrom(from); piece !== undefined; piece = ring.readFrom(from)) {
    expect(piece.position).toBe(from);
    expect(piece.bytes.length).toBeGreaterThan(0);
    text += Buffer.from(piece.bytes).toString("latin1");
    types.push(piece.type);
    from += piece.bytes.length;
  }
  expect(from).toBe(ring.end);
  return { text, types };
}

describe("the output of a named session", () => {
  test("is kept with its offsets, and each stream under its own name", () => {
    const ring = new OutputRing();
    ring.append("stdout", Buffer.from("one"));
    ring.append("stderr", Buffer.from("two"));
    ring.append("stdout", Buffer.from("three"));
    expect([ring.start, ring.end]).toEqual([0, 11]);
    expect(readAll(ring, 0)).toEqual({ text: "onetwothree", types: ["stdout", "stderr", "stdout"] });
    expect(readAll(ring, 4).text).toBe("wothree");
    expect(ring.readFrom(11)).toBeUndefined();
  });

  test("is a copy, which the reader's buffer may overwrite", () => {
    const ring = new OutputRing();
    const buffer = Buffer.from("first");
    ring.append("stdout", buffer);
    buffer.fill(0);
    expect(readAll(ring, 0).text).toBe("first");
  });

  test.each([ringBytes - 1, ringBytes, ringBytes + 1])("of %d bytes: the last 1 MiB is kept", (bytes) => {
    const ring = new OutputRing();
    for (let left = bytes; left > 0; left -= 65_536) ring.append("stdout", Buffer.alloc(Math.min(left, 65_536), 0x61));
    expect(ring.end).toBe(bytes);
    expect(ring.end - ring.start).toBe(Math.min(bytes, ringBytes));
    expect(readAll(ring, ring.start).text.length).toBe(bytes - ring.start);
  });

  test("written byte by byte costs no object a byte", () => {
    const ring = new OutputRing();
    Bun.gc(true);
    const before = process.memoryUsage().rss;
    for (let index = 0; index < ringBytes; index += 1) ring.append("stdout", Uint8Array.of(index & 0xff));
    Bun.gc(true);
    expect(process.memoryUsage().rss - before).toBeLessThan(64 * 2 ** 20);
    expect(ring.end - ring.start).toBe(ringBytes);
    for (let index = 0; index < 200_000; index += 1)
      ring.append(index % 2 === 0 ? "stdout" : "stderr", Uint8Array.of(1));
    Bun.gc(true);
    expect(process.memoryUsage().rss - before).toBeLessThan(64 * 2 ** 20);
    expect(readAll(ring, ring.start).text.length).toBe(ring.end - ring.start);
  });

  test("in very many pieces is crowded behind a reader long before any of them is pushed out", () => {
    const ring = new OutputRing();
    const append = (count: number) => {
      for (let index = 0; index < count; index += 1)
        ring.append(index % 2 === 0 ? "stdout" : "stderr", Uint8Array.of(1));
    };
    append(4_000);
    expect(ring.isCrowdedBehind(0)).toBe(false);
    append(200);
    expect([ring.isCrowdedBehind(0), ring.isCrowdedBehind(200), ring.start]).toEqual([true, false, 0]);
    append(3_000);
    expect(ring.start).toBe(0);
  });

  test("comes back as it was written, from any offset that is kept", () => {
    const piece = fc.tuple(
      fc.constantFrom("stdout" as const, "stderr" as const),
      fc.string({ minLength: 1, maxLength: 3000 }),
    );
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 40 }), fc.nat(), (pieces, offset) => {
        const ring = new OutputRing();
        for (const [type, text] of pieces) ring.append(type, Buffer.from(text, "latin1"));
        const whole = pieces.map(([, text]) => text).join("");
        const from = whole.length === 0 ? 0 : offset % whole.length;
        expect(readAll(ring, from).text).toBe(Buffer.from(whole, "latin1").toString("latin1").slice(from));
      }),
      { seed, numRuns: 200 },
    );
  });
});

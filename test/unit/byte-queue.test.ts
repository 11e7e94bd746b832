import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { ByteQueue } from "#protocol/byte-queue.ts";

const seed = Number(process.env.VMAPP_FUZZ_SEED ?? Date.now() % 1_000_000_000);

function queueOf(...chunks: number[][]): ByteQueue {
  const queue = new ByteQueue();
  for (const chunk of chunks) queue.push(Uint8Array.from(chunk));
  return queue;
}

describe("the byte queue", () => {
  test("gives a view when one chunk holds what is asked for, and a copy when it straddles chunks", () => {
    const chunk = Uint8Array.of(1, 2, 3);
    const queue = new ByteQueue();
    queue.push(chunk);
    queue.push(Uint8Array.of(4));
    expect(queue.take(2).buffer).toBe(chunk.buffer);
    expect([...queue.take(2)]).toEqual([3, 4]);
    expect(queue.length).toBe(0);
  });

  test("takes an empty chunk without keeping it", () => {
    const queue = queueOf([], [7], []);
    expect(queue.length).toBe(1);
    expect([...queue.take(1)]).toEqual([7]);
    expect([...queue.takeUpTo(10)]).toEqual([]);
  });

  test("takes nothing at all as zero bytes, also when it is empty", () => {
    expect(queueOf().take(0).length).toBe(0);
    expect(queueOf([1]).take(0).length).toBe(0);
  });

  test("peeks across chunks and past consumed bytes", () => {
    const queue = queueOf([9, 0xff], [0xfe, 0xfd], [0xfc]);
    queue.take(1);
    expect(queue.peek(0)).toBe(0xff);
    expect(queue.peek(3)).toBe(0xfc);
    expect(queue.peekUint32BE(0)).toBe(0xfffefdfc);
    expect(queue.length).toBe(4);
  });

  test("refuses to peek or take beyond what waits, and still has it afterwards", () => {
    const queue = queueOf([1, 2]);
    expect(() => queue.peek(2)).toThrow(RangeError);
    expect(() => queue.take(3)).toThrow("take(3) of 2 bytes");
    expect(() => queue.peekUint32BE(0)).toThrow(RangeError);
    expect([...queue.take(2)]).toEqual([1, 2]);
  });

  test("yields the pushed bytes in order under any chunking and any takes", () => {
    const chunks = fc.array(fc.uint8Array({ maxLength: 20 }), { maxLength: 20 });
    fc.assert(
      fc.property(chunks, fc.array(fc.nat(30)), fc.boolean(), (pushed, takes, upTo) => {
        const queue = new ByteQueue();
        for (const chunk of pushed) queue.push(chunk);
        const all = Buffer.concat(pushed);
        const got: Uint8Array[] = [];
        let taken = 0;
        for (const count of takes) {
          expect(queue.length).toBe(all.length - taken);
          if (taken < all.length) expect(queue.peek(0)).toBe(all[taken] as number);
          const piece = upTo ? queue.takeUpTo(count) : queue.take(Math.min(count, queue.length));
          taken += piece.length;
          got.push(piece);
        }
        got.push(queue.take(queue.length));
        expect(Buffer.concat(got).equals(all)).toBe(true);
      }),
      { seed, numRuns: 500 },
    );
  });
});

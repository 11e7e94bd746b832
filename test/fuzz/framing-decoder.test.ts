/** The length-prefix decoder against damaged streams: typed errors only, no hang, bounded memory. */
import { expect, setDefaultTimeout, test } from "bun:test";
import { encodeFrame, FrameDecoder, FrameLimitError } from "#protocol/framing.ts";
import { chooseSeed, damage, inputCount, pieces, Random } from "#test/shell/mutations.ts";

setDefaultTimeout(600_000);

const seed = chooseSeed();
const inputs = inputCount(1_000_000);
/** large enough that a damaged length is sometimes taken for a payload of many megabytes */
const limit = 64 * 2 ** 20;
const stream = Buffer.concat(
  ['{"t":"hello"}', "x", '{"a":[1,2,3]}'].map((text) => encodeFrame(Buffer.from(text), limit)),
);

test(`${inputs} damaged streams: only typed errors, and memory stays bounded`, () => {
  const random = new Random(seed);
  let frames = 0;
  let refused = 0;
  Bun.gc(true);
  const before = process.memoryUsage().rss;
  for (let index = 0; index < inputs; index += 1) {
    const damaged = damage(stream, random);
    const decoder = new FrameDecoder(limit);
    try {
      let out = 0;
      for (const piece of pieces(damaged, random)) {
        decoder.push(piece);
        for (let frame = decoder.next(); frame !== undefined; frame = decoder.next()) {
          frames += 1;
          out += frame.length + 4;
        }
      }
      if (decoder.atBoundary !== (out === damaged.length)) throw new Error("the boundary is not where the frames end");
    } catch (error) {
      if (error instanceof FrameLimitError) refused += 1;
      else throw new Error(`seed ${seed}, input ${index}, ${Buffer.from(damaged).toString("hex")}`, { cause: error });
    }
  }
  Bun.gc(true);
  expect(process.memoryUsage().rss - before).toBeLessThan(512 * 2 ** 20);
  expect(frames).toBeGreaterThan(inputs);
  expect(refused).toBeGreaterThan(inputs / 20);
});

/** Messages that are nearly right, for fuzzing either end of a control connection. */
import type { Random } from "../fuzz/random.ts";
import { frame, type Json } from "./raw-peer.ts";

const oddValues: readonly unknown[] = [
  null,
  true,
  false,
  0,
  -1,
  1,
  0.5,
  1e300,
  -1e300,
  2 ** 31,
  2 ** 53,
  "",
  "x",
  "/",
  "..",
  "\0",
  "\ud800",
  [],
  {},
  [null],
  { a: 1 },
  "0".repeat(64),
  "crc32",
  "image",
  "644",
  "9".repeat(400),
  "/proc/self/mem",
  "/dev/zero",
  "/../../etc/passwd",
];

/** A message with some of its fields taken away, replaced, or put in from elsewhere. */
export function mutateFields(random: Random, message: Json): Json {
  const mutated: { [field: string]: unknown } = { ...message };
  for (let count = random.below(3); count > 0; count--) {
    const field = random.pick(Object.keys(mutated));
    if (random.chance(0.3)) delete mutated[field];
    else mutated[field] = random.pick(oddValues);
    if (Object.keys(mutated).length === 0) break;
  }
  if (random.chance(0.1))
    mutated[random.pick(["size", "path", "t", "id", "perm", "offset", "__proto__"])] = random.pick(oddValues);
  return mutated;
}

/** The message as bytes, now and then with bytes flipped, cut off, doubled, or under a wrong length. */
export function mutateBytes(random: Random, message: Json, raw: Buffer): Buffer {
  const bytes = Buffer.concat([frame(message), raw]);
  if (random.chance(0.8)) return bytes;
  switch (random.below(5)) {
    case 0:
      bytes[random.below(bytes.length)] = random.below(256);
      return bytes;
    case 1:
      return bytes.subarray(0, random.below(bytes.length));
    case 2:
      return Buffer.concat([bytes, bytes.subarray(random.below(bytes.length))]);
    case 3:
      bytes.writeUInt32BE(random.pick([0, 1, 4, 0x3fffff, 0x400000, 0xffffffff, bytes.length]), 0);
      return bytes;
    default:
      return Buffer.concat([random.bytes(random.below(40)), bytes]);
  }
}

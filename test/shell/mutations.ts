/** Seeded damage to byte streams. The same seed does the same damage, so a failure can be had again. */

/** mulberry32: small, fast, and good enough to pick places and bytes. */
export class Random {
  #state: number;

  constructor(seed: number) {
    this.#state = seed >>> 0;
  }

  /** an integer from 0 to `limit` - 1 */
  below(limit: number): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(this.#state ^ (this.#state >>> 15), this.#state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return Math.floor((((mixed ^ (mixed >>> 14)) >>> 0) / 0x100000000) * limit);
  }

  pick<T>(values: readonly T[]): T {
    return values[this.below(values.length)] as T;
  }
}

/** lengths and types that sit at the edges of what a header may say */
const edges = [0, 1, 3, 4, 5, 8, 22, 23, 0x7f, 0x80, 0xff];

/** A copy of the stream with one to four pieces of damage. */
export function damage(stream: Uint8Array, random: Random): Uint8Array {
  let bytes = Uint8Array.from(stream);
  for (let left = 1 + random.below(4); left > 0; left -= 1) {
    const at = random.below(bytes.length + 1);
    switch (random.below(6)) {
      case 0:
        if (at < bytes.length) bytes[at] = random.below(256);
        break;
      case 1:
        if (at < bytes.length) bytes[at] = random.pick(edges);
        break;
      case 2:
        if (at < bytes.length) bytes[at] = (bytes[at] as number) ^ (1 << random.below(8));
        break;
      case 3:
        bytes = bytes.slice(0, at);
        break;
      case 4: {
        const from = random.below(bytes.length + 1);
        const piece = bytes.slice(from, from + random.below(32));
        bytes = Uint8Array.from([...bytes.subarray(0, at), ...piece, ...bytes.subarray(at)]);
        break;
      }
      default:
        bytes = Uint8Array.from([...bytes.subarray(0, at), ...bytes.subarray(at + 1 + random.below(8))]);
    }
  }
  return bytes;
}

/** Cuts a stream into pieces of random sizes. */
export function pieces(stream: Uint8Array, random: Random): Uint8Array[] {
  const all: Uint8Array[] = [];
  for (let offset = 0; offset < stream.length; ) {
    const size = 1 + random.below(random.below(3) === 0 ? 4 : 64);
    all.push(stream.subarray(offset, offset + size));
    offset += size;
  }
  return all;
}

/** The seed of this run: given, or new. Tests print it when they fail. */
export function chooseSeed(): number {
  return Number(process.env.VMAPP_FUZZ_SEED ?? Date.now() % 1_000_000_000);
}

/** How many inputs a fuzzer takes: some ten thousand, or the full number with VMAPP_FULL=1. */
export function inputCount(full: number): number {
  return process.env.VMAPP_FULL === "1" ? full : Math.min(full, 30_000);
}

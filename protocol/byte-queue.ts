const compactAfterChunks = 4096;
const consumed = new Uint8Array(0);

/**
 * Bytes that have arrived and are not consumed yet, in the chunks they came in. Every stream decoder of the product sits
 * on one. It copies only when what is asked for straddles chunks.
 */
export class ByteQueue {
  #chunks: Uint8Array[] = [];
  /** index of the first chunk that is not consumed; those before it go now and then, which `shift` would do each time */
  #head = 0;
  /** index of the first unconsumed byte in that chunk */
  #offset = 0;
  #length = 0;

  /** bytes waiting */
  get length(): number {
    return this.#length;
  }

  /** Takes a chunk as it is; the caller must not write to it afterwards. */
  push(chunk: Uint8Array): void {
    if (chunk.length === 0) return;
    this.#chunks.push(chunk);
    this.#length += chunk.length;
  }

  /** The byte at `index`, unconsumed. Throws a RangeError beyond the end. */
  peek(index: number): number {
    if (index >= this.#length) throw new RangeError(`peek(${index}) of ${this.#length} bytes`);
    let position = index + this.#offset;
    for (let at = this.#head; at < this.#chunks.length; at++) {
      const chunk = this.#chunks[at] as Uint8Array;
      if (position < chunk.length) return chunk[position] as number;
      position -= chunk.length;
    }
    throw new RangeError(`peek(${index}) of ${this.#length} bytes`);
  }

  /** The u32 big-endian at `index`, unconsumed. */
  peekUint32BE(index: number): number {
    return (
      this.peek(index) * 0x1000000 + ((this.peek(index + 1) << 16) | (this.peek(index + 2) << 8) | this.peek(index + 3))
    );
  }

  /** Consumes exactly `count` bytes as one view, or as a copy when they straddle chunks. Throws when fewer wait. */
  take(count: number): Uint8Array {
    if (count > this.#length) throw new RangeError(`take(${count}) of ${this.#length} bytes`);
    const first = this.#chunks[this.#head];
    if (first !== undefined && first.length - this.#offset >= count) return this.#takeFromFirst(first, count);
    const joined = new Uint8Array(count);
    let filled = 0;
    while (filled < count) {
      const piece = this.takeUpTo(count - filled);
      joined.set(piece, filled);
      filled += piece.length;
    }
    return joined;
  }

  /** Consumes what the first chunk holds, at most `limit` bytes: a view, never a copy. Empty when nothing waits. */
  takeUpTo(limit: number): Uint8Array {
    const first = this.#chunks[this.#head];
    if (first === undefined) return new Uint8Array(0);
    return this.#takeFromFirst(first, Math.min(limit, first.length - this.#offset));
  }

  #takeFromFirst(first: Uint8Array, count: number): Uint8Array {
    const view = first.subarray(this.#offset, this.#offset + count);
    this.#offset += count;
    this.#length -= count;
    if (this.#offset === first.length) {
      // Its place is kept until the next compaction, its memory is not.
      this.#chunks[this.#head] = consumed;
      this.#head += 1;
      this.#offset = 0;
      if (this.#head === this.#chunks.length) {
        this.#chunks = [];
        this.#head = 0;
      } else if (this.#head >= compactAfterChunks) {
        this.#chunks.splice(0, this.#head);
        this.#head = 0;
      }
    }
    return view;
  }
}

/** The last output of a named session, with byte offsets, so that a client can be given what it missed. */

/** output kept, in bytes */
export const ringBytes = 1024 * 1024;
/** small reads are put together up to this, so that a command which writes byte by byte does not cost an object a byte */
const joinBelowBytes = 4096;
/** bounds the objects also where standard output and standard error alternate byte by byte */
const maxPieces = 8192;

export interface OutputPiece {
  readonly type: "stdout" | "stderr";
  /** offset of the first byte, counted over all output of the session */
  readonly position: number;
  readonly bytes: Uint8Array;
}

export class OutputRing {
  readonly #pieces: OutputPiece[] = [];
  #start = 0;
  #end = 0;

  /** offset of the oldest byte kept */
  get start(): number {
    return this.#start;
  }

  /** offset of the next byte that the command will write */
  get end(): number {
    return this.#end;
  }

  /** Keeps a copy of `bytes`; the oldest go when the ring is full. */
  append(type: OutputPiece["type"], bytes: Uint8Array): void {
    const last = this.#pieces.at(-1);
    if (last?.type === type && last.bytes.length + bytes.length <= joinBelowBytes)
      this.#pieces[this.#pieces.length - 1] = { ...last, bytes: Buffer.concat([last.bytes, bytes]) };
    else this.#pieces.push({ type, position: this.#end, bytes: new Uint8Array(bytes) });
    this.#end += bytes.length;
    const firstKept = Math.max(this.#start, this.#end - ringBytes, this.#pieces.at(-maxPieces)?.position ?? 0);
    for (let oldest = this.#pieces[0]; oldest !== undefined && oldest.position < firstKept; oldest = this.#pieces[0]) {
      const surplus = firstKept - oldest.position;
      if (surplus >= oldest.bytes.length) this.#pieces.shift();
      else this.#pieces[0] = { ...oldest, position: firstKept, bytes: oldest.bytes.subarray(surplus) };
    }
    this.#start = firstKept;
  }

  /** Whether what follows `position` is in so many pieces that further ones would soon push it out, however few bytes they have. */
  isCrowdedBehind(position: number): boolean {
    const middle = this.#pieces.at(-maxPieces / 2);
    return middle !== undefined && middle.position >= position;
  }

  /** What is kept from `position` on, up to the end of its piece; undefined at the end. */
  readFrom(position: number): OutputPiece | undefined {
    let low = 0;
    let high = this.#pieces.length - 1;
    while (low <= high) {
      const middle = (low + high) >> 1;
      const piece = this.#pieces[middle] as OutputPiece;
      if (position < piece.position) high = middle - 1;
      else if (position >= piece.position + piece.bytes.length) low = middle + 1;
      else return { type: piece.type, position, bytes: piece.bytes.subarray(position - piece.position) };
    }
    return undefined;
  }
}

/** The last output of a named session, with byte offsets, so that a client can be given what it missed. */

/** output kept, in bytes */
export const ringBytes = 1024 * 1024;

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

  /** Keeps a copy of `bytes`; the oldest pieces go when the ring is full. */
  append(type: OutputPiece["type"], bytes: Uint8Array): void {
    this.#pieces.push({ type, position: this.#end, bytes: bytes.slice() });
    this.#end += bytes.length;
    for (let oldest = this.#pieces[0]; oldest !== undefined && this.#end - this.#start > ringBytes; ) {
      this.#start = oldest.position + oldest.bytes.length;
      this.#pieces.shift();
      oldest = this.#pieces[0];
    }
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

/**
 * JSON lines, the framing of the app bridge: UTF-8 JSON objects, one a line, ended by `\n`. Bytes are cut at 0x0A and
 * decoded afterwards, so that a character never falls apart at the edge of a chunk.
 */
import { ByteQueue } from "../byte-queue.ts";

/** largest line, in bytes, the `\n` not counted */
export const maxLineBytes = 16 * 1024 * 1024;

const newline = 0x0a;
/** Pieces below this are joined by the hundred: a line that trickles in costs its bytes, not an object for each of them. */
const smallPieceBytes = 4096;
const smallPiecesAtOnce = 512;

/** A line over the limit. Where it ends is not known, so what follows cannot be trusted: the connection ends. */
export class LineLimitError extends Error {
  override readonly name = "LineLimitError";
  constructor(
    /** largest line allowed, in bytes */
    readonly limit: number,
  ) {
    super(`a line of more than ${limit} bytes`);
  }
}

/**
 * Cuts a stream into lines, however it was chunked. `push` bytes, then call `next` until it answers undefined; push
 * again only after that. Throws {@link LineLimitError} as soon as more than the limit has come without a newline.
 */
export class LineDecoder {
  /** the head of a line whose newline has not come yet */
  readonly #head = new ByteQueue();
  /** small pieces behind the head, not joined yet */
  readonly #tail = new ByteQueue();
  #tailPieces = 0;
  #chunk: Uint8Array = new Uint8Array(0);
  #offset = 0;

  constructor(
    /** largest line allowed, in bytes */
    readonly limit: number = maxLineBytes,
  ) {}

  /** bytes of a line that is not complete yet */
  get pendingBytes(): number {
    return this.#head.length + this.#tail.length;
  }

  push(chunk: Uint8Array): void {
    if (this.#offset < this.#chunk.length) throw new Error("push before the last chunk was used up");
    this.#chunk = chunk;
    this.#offset = 0;
  }

  /** The next line without its newline, possibly empty; undefined until more arrives. */
  next(): Uint8Array | undefined {
    const end = this.#chunk.indexOf(newline, this.#offset);
    const pieceEnd = end < 0 ? this.#chunk.length : end;
    const length = this.pendingBytes + pieceEnd - this.#offset;
    if (length > this.limit) throw new LineLimitError(this.limit);
    const piece = this.#chunk.subarray(this.#offset, pieceEnd);
    if (end < 0) {
      this.#keep(piece);
      this.#offset = this.#chunk.length;
      return undefined;
    }
    this.#offset = end + 1;
    if (this.pendingBytes === 0) return piece;
    this.#joinTail();
    this.#head.push(piece);
    return this.#head.take(length);
  }

  #keep(piece: Uint8Array): void {
    if (piece.length >= smallPieceBytes) {
      this.#joinTail();
      this.#head.push(piece);
      return;
    }
    this.#tail.push(piece);
    this.#tailPieces += 1;
    if (this.#tailPieces === smallPiecesAtOnce) this.#joinTail();
  }

  #joinTail(): void {
    this.#head.push(this.#tail.take(this.#tail.length));
    this.#tailPieces = 0;
  }
}

/**
 * Writes a BSON document as pieces to be sent one after the other. Large byte members stay where they are and become
 * pieces of their own, so that a frame of 64 MiB is never copied. The caller says the integer type: the contract fixes it
 * for every member, and a library that guesses from a JavaScript number writes 2³¹ as a double.
 */

/** An integer written as BSON Int32; a bigint is written as Int64. */
export class Int32 {
  constructor(readonly value: number) {}
}

/** Bytes that lie in several places, written as one Binary. */
export class ByteChunks {
  readonly length: number;
  constructor(readonly chunks: readonly Uint8Array[]) {
    this.length = chunks.reduce((sum, chunk) => sum + chunk.length, 0);
  }

  /** All of them in one place: the chunk itself when there is only one. */
  join(): Uint8Array {
    return this.chunks.length === 1 ? (this.chunks[0] as Uint8Array) : Buffer.concat(this.chunks);
  }
}

/** Bytes of a message on their way out. */
export type Bytes = Uint8Array | ByteChunks;

export type Value = string | boolean | null | Int32 | bigint | Bytes | readonly Value[] | DocumentValue;

/** A document to write: members in this order, those that are undefined left out. */
export interface DocumentValue {
  readonly [name: string]: Value | undefined;
}

/** shorter bytes are copied into the piece around them */
const ownPieceBytes = 16 * 1024;

function isArray(value: Value): value is readonly Value[] {
  return Array.isArray(value);
}

/** Bytes that the document takes, without writing it. */
export function documentLength(document: DocumentValue): number {
  let length = 5;
  for (const [name, value] of Object.entries(document)) {
    if (value !== undefined) length += elementLength(name, value);
  }
  return length;
}

function elementLength(name: string, value: Value): number {
  return 2 + Buffer.byteLength(name) + valueLength(value);
}

function valueLength(value: Value): number {
  if (typeof value === "string") return 5 + Buffer.byteLength(value);
  if (typeof value === "boolean") return 1;
  if (typeof value === "bigint") return 8;
  if (value === null) return 0;
  if (value instanceof Int32) return 4;
  if (value instanceof Uint8Array || value instanceof ByteChunks) return 5 + value.length;
  if (isArray(value)) return value.reduce<number>((sum, item, index) => sum + elementLength(String(index), item), 5);
  return documentLength(value);
}

/**
 * Writes `document` behind `reserve` bytes that the caller fills (they are at the start of the first piece).
 * @param length what {@link documentLength} says of it
 */
export function writeDocument(document: DocumentValue, length: number, reserve: number): Uint8Array[] {
  return new DocumentWriter(reserve, inlineLength(document, length)).write(document, length);
}

/** bytes that have to be written, as opposed to the large ones that are only pointed at */
function inlineLength(document: DocumentValue, length: number): number {
  let inline = length;
  for (const value of Object.values(document)) {
    if (value instanceof Uint8Array || value instanceof ByteChunks) {
      if (value.length >= ownPieceBytes) inline -= value.length;
    } else if (typeof value === "object" && value !== null && !(value instanceof Int32)) {
      inline += inlineLength(value as DocumentValue, 0);
    }
  }
  return inline;
}

class DocumentWriter {
  readonly #buffer: Buffer;
  readonly #pieces: Uint8Array[] = [];
  #position: number;
  #pieceStart = 0;

  constructor(reserve: number, inline: number) {
    this.#buffer = Buffer.allocUnsafe(reserve + inline);
    this.#position = reserve;
  }

  write(document: DocumentValue, length: number): Uint8Array[] {
    this.#document(document, length);
    this.#endPiece();
    return this.#pieces;
  }

  #document(document: DocumentValue | readonly Value[], length: number): void {
    this.#int32(length);
    for (const [name, value] of Object.entries(document)) {
      if (value !== undefined) this.#element(name, value as Value);
    }
    this.#byte(0);
  }

  #element(name: string, value: Value): void {
    if (typeof value === "string") {
      this.#head(0x02, name);
      this.#int32(Buffer.byteLength(value) + 1);
      this.#cString(value);
    } else if (typeof value === "boolean") {
      this.#head(0x08, name);
      this.#byte(value ? 1 : 0);
    } else if (typeof value === "bigint") {
      this.#head(0x12, name);
      this.#position = this.#buffer.writeBigInt64LE(value, this.#position);
    } else if (value === null) {
      this.#head(0x0a, name);
    } else if (value instanceof Int32) {
      this.#head(0x10, name);
      this.#int32(value.value);
    } else if (value instanceof Uint8Array) {
      this.#bytes(name, value.length, [value]);
    } else if (value instanceof ByteChunks) {
      this.#bytes(name, value.length, value.chunks);
    } else {
      this.#head(isArray(value) ? 0x04 : 0x03, name);
      this.#document(value as DocumentValue, valueLength(value));
    }
  }

  #bytes(name: string, length: number, chunks: readonly Uint8Array[]): void {
    this.#head(0x05, name);
    this.#int32(length);
    this.#byte(0);
    if (length >= ownPieceBytes) {
      this.#endPiece();
      this.#pieces.push(...chunks.filter((chunk) => chunk.length > 0));
      return;
    }
    for (const chunk of chunks) {
      this.#buffer.set(chunk, this.#position);
      this.#position += chunk.length;
    }
  }

  #head(type: number, name: string): void {
    this.#byte(type);
    this.#cString(name);
  }

  #cString(text: string): void {
    this.#position += this.#buffer.write(text, this.#position);
    this.#byte(0);
  }

  #int32(value: number): void {
    this.#position = this.#buffer.writeInt32LE(value, this.#position);
  }

  #byte(value: number): void {
    this.#buffer[this.#position++] = value;
  }

  #endPiece(): void {
    if (this.#position === this.#pieceStart) return;
    this.#pieces.push(this.#buffer.subarray(this.#pieceStart, this.#position));
    this.#pieceStart = this.#position;
  }
}

/**
 * Walks a BSON document without building it: one cursor over the elements of one level, values as views of the frame.
 * A library's `deserialize` builds every member, known or not: a hostile frame of 64 MiB cost it 10 s and 1.2 GB, where
 * the walk takes no memory at all and skips what nobody asked for.
 */

/** BSON element types that a message of the console may hold; others are skipped by their length. */
export const ElementType = {
  double: 0x01,
  string: 0x02,
  document: 0x03,
  array: 0x04,
  binary: 0x05,
  boolean: 0x08,
  null: 0x0a,
  int32: 0x10,
  int64: 0x12,
} as const;

const typeNames: Readonly<Record<number, string>> = {
  1: "double",
  2: "string",
  3: "document",
  4: "array",
  5: "binary",
  8: "boolean",
  10: "null",
  16: "int32",
  18: "int64",
};

/** The bytes are not a BSON document. */
export class DocumentError extends Error {
  override readonly name = "DocumentError";
}

const minDocumentBytes = 5;
const shortNameBytes = 32;

/** bytes of a value by its type, where its length does not depend on its content; -1 elsewhere */
const fixedLengths = new Int8Array(256).fill(-1);
for (const [type, length] of [
  [0x01, 8],
  [0x06, 0],
  [0x07, 12],
  [0x08, 1],
  [0x09, 8],
  [0x0a, 0],
  [0x10, 4],
  [0x11, 8],
  [0x12, 8],
  [0x13, 16],
  [0x7f, 0],
  [0xff, 0],
] as const) {
  fixedLengths[type] = length;
}

/** One member of a document: its type and the bytes of its value. */
export interface Element {
  readonly type: number;
  readonly value: Uint8Array;
}

/** What an element is called in a message to a person. */
export function typeName({ type }: Pick<Element, "type">): string {
  return typeNames[type] ?? `BSON type 0x${type.toString(16).padStart(2, "0")}`;
}

/** Goes through the elements of one document; throws {@link DocumentError} at the first thing that is not BSON. */
export class DocumentReader {
  readonly #bytes: Uint8Array;
  readonly #view: DataView;
  #position = 4;
  #nameStart = 0;
  #nameEnd = 0;
  #valueStart = 0;
  #type = 0;

  /** @param bytes the whole document, its length prefix and final NUL included */
  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    if (bytes.length < minDocumentBytes) throw new DocumentError(`a document of ${bytes.length} bytes`);
    const declared = this.#view.getInt32(0, true);
    if (declared !== bytes.length) {
      throw new DocumentError(`a document that says it has ${declared} bytes and has ${bytes.length}`);
    }
    if (bytes[bytes.length - 1] !== 0) throw new DocumentError("a document that does not end with a zero byte");
  }

  /** Moves to the next element; false at the end of the document. */
  next(): boolean {
    const end = this.#bytes.length - 1;
    if (this.#position === end) return false;
    this.#type = this.#bytes[this.#position] as number;
    this.#nameStart = this.#position + 1;
    this.#nameEnd = this.#endOfCString(this.#nameStart);
    this.#valueStart = this.#nameEnd + 1;
    const length = this.#valueLength();
    if (length > end - this.#valueStart) throw this.#error("runs past the end of its document");
    this.#position = this.#valueStart + length;
    return true;
  }

  get type(): number {
    return this.#type;
  }

  /** bytes of the current element's name */
  get nameLength(): number {
    return this.#nameEnd - this.#nameStart;
  }

  /** name of the current element, its first 64 bytes as one character each: known names are shorter, and ASCII */
  get name(): string {
    const end = Math.min(this.#nameEnd, this.#nameStart + 64);
    let name = "";
    for (let index = this.#nameStart; index < end; index++) name += String.fromCharCode(this.#bytes[index] as number);
    return name;
  }

  /** the current element; its value is a view of the document */
  get element(): Element {
    return { type: this.#type, value: this.#bytes.subarray(this.#valueStart, this.#position) };
  }

  /** The current element as an integer of 0 to 255, or undefined; for arrays of bytes, without an object an element. */
  get byte(): number | undefined {
    let value: number | bigint;
    if (this.#type === ElementType.int32) value = this.#view.getInt32(this.#valueStart, true);
    else if (this.#type === ElementType.int64) value = this.#view.getBigInt64(this.#valueStart, true);
    else return undefined;
    return value >= 0 && value <= 255 ? Number(value) : undefined;
  }

  #valueLength(): number {
    const fixed = fixedLengths[this.#type] as number;
    if (fixed >= 0) return fixed;
    switch (this.#type) {
      case 0x02: // string
      case 0x0d: // code
      case 0x0e: // symbol
        return 4 + this.#stringLength();
      case 0x0c: // pointer
        return 4 + this.#stringLength() + 12;
      case 0x03: // document
      case 0x04: // array
      case 0x0f: // code with scope
        return this.#atLeast(this.#int32(), minDocumentBytes);
      case 0x05: // binary
        return 5 + this.#atLeast(this.#int32(), 0);
      case 0x0b: {
        const pattern = this.#endOfCString(this.#valueStart);
        return this.#endOfCString(pattern + 1) + 1 - this.#valueStart;
      }
      default:
        throw this.#error(`has the unknown type 0x${this.#type.toString(16)}`);
    }
  }

  #stringLength(): number {
    const length = this.#atLeast(this.#int32(), 1);
    if (this.#bytes[this.#valueStart + 4 + length - 1] !== 0) throw this.#error("is a string without its final zero");
    return length;
  }

  #int32(): number {
    if (this.#valueStart + 4 > this.#bytes.length) throw this.#error("runs past the end of its document");
    return this.#view.getInt32(this.#valueStart, true);
  }

  #atLeast(length: number, least: number): number {
    if (length < least) throw this.#error(`has a length of ${length}`);
    return length;
  }

  #endOfCString(start: number): number {
    const bytes = this.#bytes;
    let end = start;
    // Names are short: a call of the runtime's search would cost more than it saves.
    while (end < bytes.length && bytes[end] !== 0 && end - start < shortNameBytes) end++;
    if (bytes[end] !== 0) end = bytes.indexOf(0, end);
    // The final byte closes the document; a name that ends there has no value.
    if (end < 0 || end >= bytes.length - 1) throw new DocumentError("a name without an end");
    return end;
  }

  #error(what: string): DocumentError {
    return new DocumentError(`the member ${JSON.stringify(this.name)} ${what}`);
  }
}

/** The members of a document that are asked for; of a name that occurs twice the last counts. */
export function readMembers(document: Uint8Array, names: ReadonlySet<string>): Map<string, Element> {
  const members = new Map<string, Element>();
  let longest = 0;
  for (const name of names) longest = Math.max(longest, name.length);
  const reader = new DocumentReader(document);
  while (reader.next()) {
    if (reader.nameLength > longest || reader.nameLength === 0) continue;
    const { name } = reader;
    if (names.has(name)) members.set(name, reader.element);
  }
  return members;
}

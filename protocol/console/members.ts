/** Reads the members of a message with the types that the contract gives them, and says which member is wrong and how. */

import { DocumentReader, type Element, ElementType, readMembers, typeName } from "./document-reader.ts";
import { ByteChunks } from "./document-writer.ts";

/** A member that is missing or is not what its message takes. The message names it. */
export class MemberError extends Error {
  override readonly name = "MemberError";
}

const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** The asked-for members of one document, read one by one. */
export class Members {
  readonly #members: Map<string, Element>;

  /** @param path what messages put in front of a member's name, e.g. `image.` */
  constructor(
    document: Uint8Array,
    names: readonly string[],
    private readonly path = "",
  ) {
    this.#members = readMembers(document, new Set(names));
  }

  /** Whether the member is there, even as null. */
  has(name: string): boolean {
    return this.#members.has(name);
  }

  string(name: string): string {
    return stringOf(this.#need(name), this.path + name);
  }

  /** An optional member; null counts as absent. */
  optionalString(name: string): string | undefined {
    return this.#unlessNull(name, stringOf);
  }

  optionalBoolean(name: string): boolean | undefined {
    return this.#unlessNull(name, booleanOf);
  }

  boolean(name: string, absent: boolean): boolean {
    const element = this.#members.get(name);
    return element === undefined ? absent : booleanOf(element, this.path + name);
  }

  integer(name: string, range: IntegerRange): number {
    return integerOf(this.#need(name), this.path + name, range);
  }

  optionalInteger(name: string, range: IntegerRange): number | undefined {
    return this.#unlessNull(name, (element, path) => integerOf(element, path, range));
  }

  bytes(name: string): Uint8Array {
    return bytesOf(this.#need(name), this.path + name);
  }

  /** Bytes that may be left out but not null. */
  bytesOrEmpty(name: string): Uint8Array {
    const element = this.#members.get(name);
    return element === undefined ? new Uint8Array(0) : bytesOf(element, this.path + name);
  }

  optionalBytes(name: string): Uint8Array | undefined {
    return this.#unlessNull(name, bytesOf);
  }

  /** A list that may be left out but not null; each item is read by `item`, which gets the item's own path. */
  listOrEmpty<T>(name: string, item: (element: Element, path: string) => T): T[] {
    return this.#members.has(name) ? this.list(name, item) : [];
  }

  list<T>(name: string, item: (element: Element, path: string) => T): T[] {
    const element = this.#need(name);
    if (element.type !== ElementType.array) throw mismatch(this.path + name, "an array", element);
    const items: T[] = [];
    const reader = new DocumentReader(element.value);
    while (reader.next()) items.push(item(reader.element, `${this.path}${name}[${items.length}]`));
    return items;
  }

  document(name: string): Uint8Array {
    return documentOf(this.#need(name), this.path + name);
  }

  optionalDocument(name: string): Uint8Array | undefined {
    return this.#unlessNull(name, documentOf);
  }

  #need(name: string): Element {
    const element = this.#members.get(name);
    if (element === undefined) throw new MemberError(`${this.path}${name} is missing`);
    return element;
  }

  #unlessNull<T>(name: string, read: (element: Element, path: string) => T): T | undefined {
    const element = this.#members.get(name);
    if (element === undefined || element.type === ElementType.null) return undefined;
    return read(element, this.path + name);
  }
}

export interface IntegerRange {
  readonly least: number;
  readonly most: number;
}

/** A `u64` of the contract. Above what a JavaScript number counts exactly it saturates: no file and no clock goes there. */
export const unsigned: IntegerRange = { least: 0, most: 2 ** 63 };
export const unsigned32: IntegerRange = { least: 0, most: 0xffffffff };
export const unsigned8: IntegerRange = { least: 0, most: 0xff };
export const signed32: IntegerRange = { least: -0x80000000, most: 0x7fffffff };

function mismatch(path: string, expected: string, found: Element): MemberError {
  return new MemberError(`${path} is not ${expected} but ${typeName(found)}`);
}

function view({ value }: Element): DataView {
  return new DataView(value.buffer, value.byteOffset, value.byteLength);
}

export function stringOf(element: Element, path: string): string {
  if (element.type !== ElementType.string) throw mismatch(path, "a string", element);
  try {
    return utf8.decode(element.value.subarray(4, -1));
  } catch {
    throw new MemberError(`${path} is not UTF-8`);
  }
}

export function documentOf(element: Element, path: string): Uint8Array {
  if (element.type !== ElementType.document) throw mismatch(path, "a document", element);
  return element.value;
}

function booleanOf(element: Element, path: string): boolean {
  if (element.type !== ElementType.boolean) throw mismatch(path, "a boolean", element);
  return element.value[0] !== 0;
}

/** Takes Int32 and Int64, and a double that is a whole number: what a peer without integer types writes. */
function integerOf(element: Element, path: string, { least, most }: IntegerRange): number {
  let value: number;
  if (element.type === ElementType.int32) value = view(element).getInt32(0, true);
  else if (element.type === ElementType.int64) value = Number(view(element).getBigInt64(0, true));
  else if (element.type === ElementType.double) value = view(element).getFloat64(0, true);
  else throw mismatch(path, "an integer", element);
  if (!Number.isInteger(value)) throw mismatch(path, "an integer", element);
  if (value < least || value > most) throw new MemberError(`${path} is ${value}, outside ${least} to ${most}`);
  return Math.min(value, Number.MAX_SAFE_INTEGER);
}

const genericSubtype = 0;

/** Takes Binary of the generic subtype, and an array of integers of 0 to 255, which one known client writes. */
function bytesOf(element: Element, path: string): Uint8Array {
  if (element.type === ElementType.array) return bytesOfArray(element, path);
  if (element.type !== ElementType.binary) throw mismatch(path, "Binary", element);
  const subtype = element.value[4];
  if (subtype !== genericSubtype) throw new MemberError(`${path} is Binary of subtype ${subtype}, not 0`);
  return element.value.subarray(5);
}

/** the least that an Int32 in an array takes: its type, the zero of an empty name, four bytes */
const leastIntegerBytes = 6;

function bytesOfArray({ value }: Element, path: string): Uint8Array {
  const bytes = new Uint8Array(Math.floor(value.length / leastIntegerBytes));
  const reader = new DocumentReader(value);
  let length = 0;
  while (reader.next()) {
    const { byte } = reader;
    if (byte === undefined) throw new MemberError(`${path}[${length}] is not an integer of 0 to 255`);
    bytes[length++] = byte;
  }
  return bytes.subarray(0, length);
}

/** The bytes of a member that was read or is about to be written, in one place. */
export function joined(bytes: Uint8Array | ByteChunks): Uint8Array {
  return bytes instanceof ByteChunks ? bytes.join() : bytes;
}

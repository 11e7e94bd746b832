/** The body of a file in a layer: all of it, or GNU tar's sparse format 1.0 where holes are worth leaving out. */
import { constants } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { dataExtents, type Extent } from "#sys/extents.ts";
import { paddedToBlock, paxKeys, tarBlockBytes } from "./format.ts";

const chunkBytes = 256 * 1024;

/** holes that add up to less than this are written as zeroes */
const leastHoleBytes = 64 * 1024;

function holeBytes(extents: readonly Extent[], size: number): number {
  return extents.reduce((rest, extent) => rest - extent.length, size);
}

/** A file that is opened to be written into a layer, with the size that it had then. */
export class FileBody {
  private constructor(
    private readonly handle: FileHandle,
    private readonly size: number,
    /** the parts with data; undefined when the file goes in whole */
    private readonly extents: readonly Extent[] | undefined,
  ) {}

  static async open(path: Buffer): Promise<FileBody> {
    // What was a file a moment ago may be a link or a FIFO by now, which must neither be followed nor waited for.
    const handle = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
    try {
      const { size } = await handle.stat();
      let extents = dataExtents(handle.fd, size);
      if (holeBytes(extents, size) >= leastHoleBytes) {
        // What is still only in memory may have no extents yet, and the same file would make another layer later.
        await handle.datasync();
        extents = dataExtents(handle.fd, size);
      }
      return new FileBody(handle, size, holeBytes(extents, size) < leastHoleBytes ? undefined : extents);
    } catch (error) {
      await handle.close();
      throw error;
    }
  }

  /** bytes of the entry's body */
  get length(): number {
    if (this.extents === undefined) return this.size;
    return this.#map().length + this.extents.reduce((sum, extent) => sum + extent.length, 0);
  }

  /** What the entry's extended header has to say about the body. */
  pax(name: string): Record<string, string> {
    if (this.extents === undefined) return {};
    return {
      [paxKeys.sparseMajor]: "1",
      [paxKeys.sparseMinor]: "0",
      [paxKeys.sparseName]: name,
      [paxKeys.sparseSize]: String(this.size),
    };
  }

  /** Exactly `length` bytes; what a file has lost since it was opened is made up with zeroes. */
  async *chunks(): AsyncGenerator<Uint8Array> {
    if (this.extents === undefined) {
      yield* this.#read({ offset: 0, length: this.size });
      return;
    }
    yield this.#map();
    for (const extent of this.extents) yield* this.#read(extent);
  }

  close(): Promise<void> {
    return this.handle.close();
  }

  /** The number of parts, then offset and length of each, a decimal number a line, padded to whole blocks. */
  #map(): Buffer {
    const extents = [...(this.extents ?? [])];
    const last = extents.at(-1);
    // Readers take the end of the last part for the end of the file.
    if (last === undefined || last.offset + last.length < this.size) extents.push({ offset: this.size, length: 0 });
    const numbers = [extents.length, ...extents.flatMap(({ offset, length }) => [offset, length])];
    const text = Buffer.from(`${numbers.join("\n")}\n`);
    return Buffer.concat([text], paddedToBlock(text.length));
  }

  async *#read({ offset, length }: Extent): AsyncGenerator<Uint8Array> {
    for (let done = 0; done < length; ) {
      const chunk = Buffer.allocUnsafeSlow(Math.min(chunkBytes, length - done));
      const { bytesRead } = await this.handle.read(chunk, 0, chunk.length, offset + done);
      if (bytesRead === 0) chunk.fill(0);
      const piece = bytesRead === 0 ? chunk : chunk.subarray(0, bytesRead);
      done += piece.length;
      yield piece;
    }
  }
}

/** Reads the map of a sparse body, given a way to take exactly so many bytes of it. Throws an Error when it is none. */
export async function readSparseMap(take: (bytes: number) => Promise<Uint8Array>, size: number): Promise<Extent[]> {
  let text = "";
  const numbers: number[] = [];
  for (;;) {
    text += Buffer.from(await take(tarBlockBytes)).toString("latin1");
    const lines = text.split("\n");
    // The last piece has no newline yet: the rest of a number, or padding.
    text = lines.pop() ?? "";
    numbers.push(...lines.map(decimal));
    const [count] = numbers;
    if (count !== undefined && numbers.length >= 1 + 2 * count) break;
    if (text.includes("\0") || numbers.length > maxMapNumbers) throw new Error("a sparse file with a broken map");
  }
  const [count = 0] = numbers;
  const extents: Extent[] = [];
  let end = 0;
  for (let index = 0; index < count; index++) {
    const [offset, length] = [numbers[1 + 2 * index] as number, numbers[2 + 2 * index] as number];
    if (offset < end || offset + length > size) throw new Error("a sparse file whose parts overlap or exceed it");
    end = offset + length;
    extents.push({ offset, length });
  }
  return extents;
}

const maxMapNumbers = 10_000_000;

function decimal(text: string): number {
  if (!/^\d{1,16}$/.test(text)) throw new Error("a sparse file with a broken map");
  return Number(text);
}

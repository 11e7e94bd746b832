/** The tree that a layer is put into, entry by entry, without ever following a link or a mount out of it. */
import {
  chmodSync,
  lchownSync,
  linkSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  rmdirSync,
  type Stats,
  symlinkSync,
  unlinkSync,
} from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import type { Extent } from "#sys/extents.ts";
import { makeNode, setTimes, setXattr } from "#sys/file-attributes.ts";
import { BodyReader } from "./body-reader.ts";
import type { Attributes, LayerEntry, LayerPath } from "./entry.ts";
import { opaqueXattr, overlayXattrPrefix } from "./format.ts";
import { readSparseMap } from "./sparse.ts";

const slash = Buffer.from("/");

export class LayerTarget {
  readonly #root: Buffer;
  /** of every directory that may be touched: what is mounted below the root is somebody else's, a folder of the host's maybe */
  readonly #device: number;
  /** directories whose times are set last, when nothing in them changes any more */
  readonly #directories: { readonly path: Buffer; readonly mtime: bigint }[] = [];

  constructor(
    root: string,
    private readonly onto: "upper" | "merged",
  ) {
    this.#root = Buffer.from(root === "/" ? "" : root);
    this.#device = lstatSync(root).dev;
  }

  async put(entry: LayerEntry, body: AsyncIterable<Uint8Array>): Promise<void> {
    // The root itself is not part of a layer.
    if (entry.path.length === 0 && entry.kind !== "opaque") return;
    switch (entry.kind) {
      case "whiteout":
        return this.#delete(entry.path);
      case "opaque":
        return this.#hideBase(entry.path);
      case "directory":
        return this.#directory(entry.path, entry.attributes);
      case "symlink": {
        const path = this.#clear(entry.path);
        symlinkSync(entry.target as unknown as string, path);
        return setAttributes(path, entry.attributes, { link: true });
      }
      case "link": {
        const target = this.#join(this.#parent(entry.target, { make: false }), entry.target);
        linkSync(target, this.#clear(entry.path));
        return;
      }
      case "device": {
        const path = this.#clear(entry.path);
        makeNode(path, { type: entry.type, mode: 0, major: entry.major, minor: entry.minor });
        return setAttributes(path, entry.attributes, { link: false });
      }
      case "file":
        return this.#file(entry, body);
    }
  }

  /** Sets the times of the directories, the innermost first. */
  finish(): void {
    for (const { path, mtime } of this.#directories.toReversed()) {
      // A later entry may have replaced it.
      if (lookAt(path)?.isDirectory() === true) setTimes(path, mtime);
    }
  }

  #delete(path: LayerPath): void {
    const full = this.#clear(path);
    if (this.onto === "upper") makeNode(full, { type: "character", mode: 0, major: 0, minor: 0 });
  }

  #hideBase(path: LayerPath): void {
    const directory = path.length === 0 ? this.#root : this.#makeDirectory(path);
    if (this.onto === "upper") setXattr(directory, opaqueXattr, Buffer.from("y"));
    else for (const name of listDirectory(directory)) removeTree(Buffer.concat([directory, slash, name]), this.#device);
  }

  #directory(path: LayerPath, attributes: Attributes): void {
    const full = this.#makeDirectory(path);
    setAttributes(full, attributes, { link: false });
    this.#directories.push({ path: full, mtime: attributes.mtime });
  }

  async #file(entry: LayerEntry & { kind: "file" }, body: AsyncIterable<Uint8Array>): Promise<void> {
    const path = this.#clear(entry.path);
    const file = await open(path, "wx", 0o600);
    try {
      await writeBody(file, entry, body);
    } finally {
      await file.close();
    }
    setAttributes(path, entry.attributes, { link: false });
  }

  /** The directory at `path`, made if need be; anything else that is there gives way. */
  #makeDirectory(path: LayerPath): Buffer {
    const full = this.#join(this.#parent(path, { make: true }), path);
    const there = lookAt(full);
    if (there?.isDirectory() === true) {
      refuseMount(full, there, this.#device);
      return full;
    }
    if (there !== undefined) unlinkSync(full);
    mkdirSync(full, 0o755);
    return full;
  }

  /** The path, with nothing at it any more. */
  #clear(path: LayerPath): Buffer {
    const full = this.#join(this.#parent(path, { make: true }), path);
    removeTree(full, this.#device);
    return full;
  }

  #join(parent: Buffer, path: LayerPath): Buffer {
    return Buffer.concat([parent, slash, path.at(-1) as Buffer]);
  }

  /** The directory above `path`, each part of it a real directory of the root's filesystem and no link. */
  #parent(path: LayerPath, { make }: { make: boolean }): Buffer {
    let directory = this.#root;
    for (const part of path.slice(0, -1)) {
      directory = Buffer.concat([directory, slash, part]);
      const there = lookAt(directory);
      if (there === undefined && make) mkdirSync(directory, 0o755);
      else if (there?.isDirectory() !== true) throw new Error(`${directory} is not a directory`);
      else refuseMount(directory, there, this.#device);
    }
    return directory;
  }
}

function lookAt(path: Buffer): Stats | undefined {
  return lstatSync(path, { throwIfNoEntry: false });
}

function listDirectory(path: Buffer): Buffer[] {
  return readdirSync(path, { encoding: "buffer" }) as unknown as Buffer[];
}

function refuseMount(directory: Buffer, { dev }: Stats, device: number): void {
  if (dev !== device) throw new Error(`${directory} is a mount point`);
}

/** Removes whatever is at `path`, but nothing of another filesystem that is mounted there or below it. */
function removeTree(path: Buffer, device: number): void {
  const there = lookAt(path);
  if (there === undefined) return;
  if (!there.isDirectory()) {
    unlinkSync(path);
    return;
  }
  refuseMount(path, there, device);
  for (const name of listDirectory(path)) removeTree(Buffer.concat([path, slash, name]), device);
  rmdirSync(path);
}

async function writeBody(
  file: FileHandle,
  { length, sparseSize }: LayerEntry & { kind: "file" },
  body: AsyncIterable<Uint8Array>,
): Promise<void> {
  const reader = new BodyReader(body);
  let extents: readonly Extent[] = [{ offset: 0, length }];
  if (sparseSize !== undefined) {
    extents = await readSparseMap((bytes) => reader.take(bytes), sparseSize);
    await file.truncate(sparseSize);
  }
  for (const extent of extents) {
    for (let done = 0; done < extent.length; ) {
      const chunk = await reader.takeUpTo(extent.length - done);
      await writeFully(file, chunk, extent.offset + done);
      done += chunk.length;
    }
  }
}

async function writeFully(file: FileHandle, bytes: Uint8Array, position: number): Promise<void> {
  for (let done = 0; done < bytes.length; ) {
    done += (await file.write(bytes, done, bytes.length - done, position + done)).bytesWritten;
  }
}

/** In this order: a change of owner clears set-id bits and capabilities, and every change before the last moves the time. */
function setAttributes(path: Buffer, attributes: Attributes, { link }: { link: boolean }): void {
  lchownSync(path, attributes.uid, attributes.gid);
  if (!link) chmodSync(path, attributes.mode);
  for (const [name, value] of attributes.xattrs) {
    if (!name.startsWith(overlayXattrPrefix)) setXattr(path, name, value);
  }
  setTimes(path, attributes.mtime);
}

/** Writes a session's changes as a layer tar: one upper directory gives one sequence of bytes. */
import type { BigIntStats } from "node:fs";
import { readlink } from "node:fs/promises";
import { type Pack, pack } from "tar-stream";
import { ByteChunks } from "#protocol/console/document-writer.ts";
import { ConsoleError } from "#protocol/console/errors.ts";
import { getXattr, listXattrs } from "#sys/file-attributes.ts";
import { type LayerHeader, opaqueName, overlayXattrPrefix, paxKeys, tarBlockBytes, whiteoutPrefix } from "./format.ts";
import { isGone, type PlannedEntry, type PlanOptions, planLayer } from "./plan.ts";
import { FileBody } from "./sparse.ts";

export interface LayerOptions extends PlanOptions {
  /** bytes that the layer may have */
  readonly limit: number;
}

/** Throws ConsoleError `internal` when the session has written more than a layer may carry, with both sizes. */
export async function writeLayer({ limit, ...options }: LayerOptions): Promise<ByteChunks> {
  const plan: PlannedEntry[] = [];
  let least = 0;
  for await (const entry of planLayer(options)) {
    least += leastBytes(entry);
    // Counted on, so that the message can say how much there is; kept no longer.
    if (least <= limit) plan.push(entry);
  }
  if (least > limit) throw tooLarge(least, limit);

  const writer = new LayerWriter(limit);
  for (const entry of plan) await writer.add(entry);
  return writer.finish();
}

function tooLarge(bytes: number, limit: number): ConsoleError {
  const text = `this session has written ${bytes} bytes, which is more than the ${limit} a snapshot can carry`;
  return new ConsoleError("internal", text);
}

/** What an entry takes at least. A file with holes counts by what it occupies. */
function leastBytes(entry: PlannedEntry): number {
  if (entry.kind !== "node" || !entry.stats.isFile()) return tarBlockBytes;
  const { size, blocks } = entry.stats;
  return tarBlockBytes + Math.min(Number(size), Number(blocks) * 512);
}

class LayerWriter {
  readonly #pack: Pack = pack();
  readonly #chunks: Uint8Array[] = [];
  #length = 0;
  readonly #ended: Promise<void>;
  /** first name of each file that has several, by device and inode */
  readonly #linked = new Map<string, Buffer>();

  constructor(private readonly limit: number) {
    this.#pack.on("data", (data) => {
      const chunk = data as Uint8Array;
      this.#length += chunk.length;
      if (this.#length <= limit) this.#chunks.push(chunk);
      else this.#chunks.length = 0;
    });
    this.#ended = new Promise((resolve, reject) => {
      this.#pack.on("end", () => resolve());
      this.#pack.on("error", reject);
    });
    this.#ended.catch(() => {});
  }

  async add(entry: PlannedEntry): Promise<void> {
    if (this.#length > this.limit) throw tooLarge(this.#length, this.limit);
    switch (entry.kind) {
      case "whiteout":
        return this.#marker(whiteoutName(entry.name));
      case "opaque":
        return this.#marker(Buffer.concat([entry.name, Buffer.from(`/${opaqueName}`)]));
      case "node":
        return this.#node(entry).catch((error: unknown) => {
          // Removed or replaced by a command since the walk: then it is not there to be carried.
          if (!isGone(error)) throw error;
        });
    }
  }

  async finish(): Promise<ByteChunks> {
    this.#pack.finalize();
    await this.#ended;
    if (this.#length > this.limit) throw tooLarge(this.#length, this.limit);
    return new ByteChunks(this.#chunks);
  }

  #marker(name: Buffer): Promise<void> {
    return this.#write({ ...named(name), type: "file", mode: mode(0o644n), uid: 0, gid: 0, mtime: new Date(0) });
  }

  async #node({ name, path, stats }: PlannedEntry & { kind: "node" }): Promise<void> {
    const pax = paxAttributes(path);
    if (baseName(name).toString("latin1").startsWith(whiteoutPrefix)) pax[paxKeys.literal] = "1";
    const header = withPax({ ...named(name), ...ownership(stats, pax) }, pax);
    const identity = stats.nlink > 1n && !stats.isDirectory() ? `${stats.dev}:${stats.ino}` : undefined;
    const first = identity === undefined ? undefined : this.#linked.get(identity);
    if (first !== undefined) return this.#write(linkedTo({ ...header, type: "link" }, first));
    await this.#whole({ path, stats, header });
    if (identity !== undefined) this.#linked.set(identity, name);
  }

  async #whole({ path, stats, header }: { path: Buffer; stats: BigIntStats; header: LayerHeader }): Promise<void> {
    if (stats.isDirectory()) return this.#write({ ...header, type: "directory" });
    if (stats.isSymbolicLink()) {
      const target = (await readlink(path, { encoding: "buffer" })) as Buffer;
      return this.#write(linkedTo({ ...header, type: "symlink" }, target));
    }
    if (stats.isFIFO()) return this.#write({ ...header, type: "fifo" });
    if (!stats.isFile()) return this.#write(deviceOf(stats, header));
    return this.#file(path, header);
  }

  async #file(path: Buffer, header: LayerHeader): Promise<void> {
    const body = await FileBody.open(path);
    try {
      const pax = { ...header.pax, ...body.pax(header.name) };
      await this.#write({ ...withPax(header, pax), type: "file", size: body.length }, body);
    } finally {
      await body.close();
    }
  }

  async #write(header: LayerHeader, body?: FileBody): Promise<void> {
    const written = Promise.withResolvers<void>();
    const sink = this.#pack.entry(header, (error) => (error ? written.reject(error) : written.resolve()));
    if (body !== undefined) {
      for await (const chunk of body.chunks()) {
        if (this.#length > this.limit) throw tooLarge(this.#length, this.limit);
        if (!sink.write(chunk)) await new Promise<void>((resolve) => sink.once("drain", () => resolve()));
      }
    }
    sink.end(undefined);
    await written.promise;
  }
}

/** tar-stream takes a mode of 0 for a mode left out; the type's bits, which it masks, keep it from that. */
function mode(bits: bigint): number {
  return Number(bits & 0o7777n) | 0o100000;
}

function named(name: Buffer): { name: string; pax?: Record<string, string> } {
  const text = name.toString("utf8");
  return Buffer.from(text).equals(name)
    ? { name: text }
    : { name: text, pax: { [paxKeys.path]: name.toString("hex") } };
}

function linkedTo(header: LayerHeader, target: Buffer): LayerHeader {
  const linkname = target.toString("utf8");
  if (Buffer.from(linkname).equals(target)) return { ...header, linkname };
  return withPax({ ...header, linkname }, { ...header.pax, [paxKeys.linkPath]: target.toString("hex") });
}

/** tar-stream writes an extended header as soon as `pax` is there, so it is left out where it would be empty. */
function withPax(header: LayerHeader, pax: Record<string, string>): LayerHeader {
  const all = { ...header.pax, ...pax };
  return Object.keys(all).length === 0 ? header : { ...header, pax: all };
}

/** largest numbers that tar-stream writes into the header: six octal digits for ids and devices; larger ones it cuts */
const maxId = 0o777777;
const maxTime = 0x7fffffff;

/** Owner, mode and time; what their fields cannot hold goes into `pax`. */
function ownership(
  stats: BigIntStats,
  pax: Record<string, string>,
): Pick<LayerHeader, "mode" | "uid" | "gid" | "mtime"> {
  const [uid, gid] = [Number(stats.uid), Number(stats.gid)];
  if (uid > maxId) pax.uid = String(uid);
  if (gid > maxId) pax.gid = String(gid);
  const billion = 1_000_000_000n;
  const fraction = ((stats.mtimeNs % billion) + billion) % billion;
  const seconds = Number((stats.mtimeNs - fraction) / billion);
  if (fraction !== 0n || seconds < 0 || seconds > maxTime) pax.mtime = decimalSeconds(stats.mtimeNs);
  return {
    mode: mode(stats.mode),
    uid: Math.min(uid, maxId),
    gid: Math.min(gid, maxId),
    mtime: new Date(Math.min(Math.max(seconds, 0), maxTime) * 1000),
  };
}

function decimalSeconds(nanoseconds: bigint): string {
  const billion = 1_000_000_000n;
  const size = nanoseconds < 0n ? -nanoseconds : nanoseconds;
  const fraction = (size % billion).toString().padStart(9, "0").replace(/0+$/, "");
  return `${nanoseconds < 0n ? "-" : ""}${size / billion}${fraction === "" ? "" : `.${fraction}`}`;
}

/** The extended attributes, but for the books that overlayfs keeps. */
function paxAttributes(path: Buffer): Record<string, string> {
  const pax: Record<string, string> = {};
  for (const attribute of listXattrs(path).sort()) {
    if (attribute === `${overlayXattrPrefix}redirect` || attribute === `${overlayXattrPrefix}metacopy`) {
      throw new ConsoleError("internal", `${path}: its content is in the base image, so no layer can carry it`);
    }
    if (attribute.startsWith(overlayXattrPrefix)) continue;
    const value = getXattr(path, attribute);
    // The standard's key is URL-encoded; `=` would end it.
    const name = encodeURIComponent(attribute);
    if (value !== undefined) pax[paxKeys.xattr + name] = Buffer.from(value).toString("base64").replace(/=+$/, "");
  }
  return pax;
}

/** The numbers by glibc's `major` and `minor`; what their fields cannot hold goes into `pax`. */
function deviceOf(stats: BigIntStats, header: LayerHeader): LayerHeader {
  const { rdev } = stats;
  const major = Number(((rdev >> 32n) & 0xfffff000n) | ((rdev >> 8n) & 0xfffn));
  const minor = Number(((rdev >> 12n) & 0xffffff00n) | (rdev & 0xffn));
  const pax: Record<string, string> = {};
  if (major > maxId) pax[paxKeys.deviceMajor] = String(major);
  if (minor > maxId) pax[paxKeys.deviceMinor] = String(minor);
  const type = stats.isBlockDevice() ? "block-device" : "character-device";
  return withPax({ ...header, type, devmajor: Math.min(major, maxId), devminor: Math.min(minor, maxId) }, pax);
}

function whiteoutName(name: Buffer): Buffer {
  const start = name.length - baseName(name).length;
  return Buffer.concat([name.subarray(0, start), Buffer.from(whiteoutPrefix), name.subarray(start)]);
}

function baseName(name: Buffer): Buffer {
  return name.subarray(name.lastIndexOf(0x2f) + 1);
}

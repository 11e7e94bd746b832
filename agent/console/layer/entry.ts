/** One entry of a layer as it was read, with its PAX records understood. */
import { type LayerHeader, opaqueName, paxKeys, whiteoutPrefix } from "./format.ts";

export interface Attributes {
  /** permission bits */
  readonly mode: number;
  readonly uid: number;
  readonly gid: number;
  /** nanoseconds since 1970 */
  readonly mtime: bigint;
  readonly xattrs: ReadonlyMap<string, Uint8Array>;
}

/** A path below the layer's root, part by part; none of them is empty, `.` or `..`. */
export type LayerPath = readonly Buffer[];

export type LayerEntry =
  | { readonly kind: "whiteout"; readonly path: LayerPath }
  /** `path` is the directory that hides the base's one */
  | { readonly kind: "opaque"; readonly path: LayerPath }
  | { readonly kind: "directory"; readonly path: LayerPath; readonly attributes: Attributes }
  | {
      readonly kind: "file";
      readonly path: LayerPath;
      readonly attributes: Attributes;
      /** bytes of the body */
      readonly length: number;
      /** bytes of the file where the body is sparse */
      readonly sparseSize: number | undefined;
    }
  | { readonly kind: "symlink"; readonly path: LayerPath; readonly attributes: Attributes; readonly target: Buffer }
  | { readonly kind: "link"; readonly path: LayerPath; readonly target: LayerPath }
  | {
      readonly kind: "device";
      readonly path: LayerPath;
      readonly attributes: Attributes;
      readonly type: "character" | "block" | "fifo";
      readonly major: number;
      readonly minor: number;
    };

/** Throws an Error that says what is wrong with the entry. */
export function readEntry(header: LayerHeader): LayerEntry {
  const pax = header.pax ?? {};
  const path = layerPath(pathBytes(pax[paxKeys.path], pax[paxKeys.sparseName] ?? header.name));
  const base = path.at(-1)?.toString("latin1") ?? "";
  if (pax[paxKeys.literal] === undefined && base.startsWith(whiteoutPrefix)) {
    const directory = path.slice(0, -1);
    if (base === opaqueName) return { kind: "opaque", path: directory };
    const name = layerPath(Buffer.from(base.slice(whiteoutPrefix.length), "latin1"));
    if (name.length === 0) throw new Error("a whiteout of nothing");
    return { kind: "whiteout", path: [...directory, ...name] };
  }
  const attributes = readAttributes(header, pax);
  const linkBytes = () => pathBytes(pax[paxKeys.linkPath], header.linkname ?? "");
  switch (header.type) {
    case "directory":
      return { kind: "directory", path, attributes };
    case "file":
    case "contiguous-file":
      return { kind: "file", path, attributes, length: header.size ?? 0, sparseSize: sparseSize(pax) };
    case "symlink":
      return { kind: "symlink", path, attributes, target: linkBytes() };
    case "link":
      return { kind: "link", path, target: layerPath(linkBytes()) };
    case "character-device":
    case "block-device": {
      const major = numberOr(pax[paxKeys.deviceMajor], header.devmajor);
      const minor = numberOr(pax[paxKeys.deviceMinor], header.devminor);
      // The other form of a deletion: overlayfs's own, which some layers carry as it is.
      if (header.type === "character-device" && major === 0 && minor === 0) return { kind: "whiteout", path };
      const type = header.type === "block-device" ? "block" : "character";
      return { kind: "device", path, attributes, type, major, minor };
    }
    case "fifo":
      return { kind: "device", path, attributes, type: "fifo", major: 0, minor: 0 };
    default:
      throw new Error(`an entry of the unknown type ${JSON.stringify(header.type)}`);
  }
}

function pathBytes(hex: string | undefined, text: string): Buffer {
  return hex === undefined ? Buffer.from(text, "utf8") : Buffer.from(hex, "hex");
}

/** Throws for a path that is absolute or climbs: no layer of ours has one. */
function layerPath(path: Buffer): Buffer[] {
  if (path[0] === 0x2f) throw new Error("an absolute path");
  if (path.includes(0)) throw new Error("a path with a NUL byte");
  const parts: Buffer[] = [];
  for (let start = 0; start <= path.length; ) {
    const slash = path.indexOf(0x2f, start);
    const end = slash < 0 ? path.length : slash;
    const part = path.subarray(start, end);
    start = end + 1;
    const text = part.toString("latin1");
    if (text === "..") throw new Error("a path with ..");
    if (text !== "" && text !== ".") parts.push(part);
  }
  return parts;
}

function sparseSize(pax: Readonly<Record<string, string>>): number | undefined {
  const version = pax[paxKeys.sparseMajor];
  if (version === undefined) return undefined;
  if (version !== "1" || pax[paxKeys.sparseMinor] !== "0") throw new Error("a sparse file of another format than 1.0");
  return wholeNumber(pax[paxKeys.sparseSize]);
}

function wholeNumber(text: string | undefined): number {
  if (text === undefined || !/^\d{1,15}$/.test(text)) throw new Error(`not a whole number: ${JSON.stringify(text)}`);
  return Number(text);
}

/** The extended record counts before the header's field; without either it is 0. */
function numberOr(record: string | undefined, field: number | undefined): number {
  return record === undefined ? (field ?? 0) : wholeNumber(record);
}

function readAttributes(header: LayerHeader, pax: Readonly<Record<string, string>>): Attributes {
  return {
    mode: (header.mode ?? 0o644) & 0o7777,
    uid: numberOr(pax.uid, header.uid),
    gid: numberOr(pax.gid, header.gid),
    mtime: pax.mtime === undefined ? BigInt(header.mtime?.getTime() ?? 0) * 1_000_000n : nanoseconds(pax.mtime),
    xattrs: readXattrs(pax),
  };
}

function nanoseconds(text: string): bigint {
  const parts = /^(-?)(\d{1,12})(?:\.(\d{1,9})\d*)?$/.exec(text);
  if (parts === null) throw new Error(`not a time: ${JSON.stringify(text)}`);
  const [, sign, seconds = "0", fraction = ""] = parts;
  const value = BigInt(seconds) * 1_000_000_000n + BigInt(fraction.padEnd(9, "0"));
  return sign === "-" ? -value : value;
}

function readXattrs(pax: Readonly<Record<string, string>>): Map<string, Uint8Array> {
  const xattrs = new Map<string, Uint8Array>();
  for (const [key, value] of Object.entries(pax)) {
    if (key.startsWith(paxKeys.schilyXattr)) {
      xattrs.set(key.slice(paxKeys.schilyXattr.length), Buffer.from(value, "utf8"));
    } else if (key.startsWith(paxKeys.xattr)) {
      xattrs.set(decodeURIComponent(key.slice(paxKeys.xattr.length)), Buffer.from(value, "base64"));
    }
  }
  return xattrs;
}

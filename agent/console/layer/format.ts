/**
 * How a layer tar carries what plain tar does not: deletions as OCI whiteouts, and the rest in PAX records.
 *
 * - `.wh.NAME` deletes NAME; `.wh..wh..opq` in a directory hides what the base has in it
 * - `LIBARCHIVE.xattr.NAME` = base64, as libarchive writes extended attributes
 * - `GNU.sparse.*`, version 1.0, as GNU tar writes files with holes
 * - `mtime`, `uid`, `gid` where the header's field cannot hold them; `SCHILY.devmajor`, `SCHILY.devminor` too, as star
 *   and libarchive write them
 * - `VMAPP.path`, `VMAPP.linkpath` = hex of a name that is not UTF-8; `VMAPP.literal` marks a file whose own name
 *   starts like a whiteout's
 */
import type { Header } from "tar-stream";

/** An entry's header, with what tar-stream does not say of its extended records: texts by key. */
export type LayerHeader = Partial<Omit<Header, "pax">> & { name: string; pax?: Record<string, string> };

export const whiteoutPrefix = ".wh.";
export const opaqueName = ".wh..wh..opq";

export const paxKeys = {
  path: "VMAPP.path",
  linkPath: "VMAPP.linkpath",
  literal: "VMAPP.literal",
  xattr: "LIBARCHIVE.xattr.",
  /** extended attributes as GNU tar writes them; read only, since a value need not be text */
  schilyXattr: "SCHILY.xattr.",
  deviceMajor: "SCHILY.devmajor",
  deviceMinor: "SCHILY.devminor",
  sparseMajor: "GNU.sparse.major",
  sparseMinor: "GNU.sparse.minor",
  sparseName: "GNU.sparse.name",
  sparseSize: "GNU.sparse.realsize",
} as const;

/** attributes by which overlayfs keeps its books in the upper directory */
export const overlayXattrPrefix = "trusted.overlay.";
export const opaqueXattr = "trusted.overlay.opaque";

export const tarBlockBytes = 512;

export function paddedToBlock(bytes: number): number {
  return Math.ceil(bytes / tarBlockBytes) * tarBlockBytes;
}

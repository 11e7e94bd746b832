/** What a layer keeps of a file beyond its bytes and Node's `fs`: extended attributes, device nodes, times to the nanosecond. */
import { SysError } from "./errors.ts";
import { check, cString, errno, libc, ptr } from "./libc.ts";

const ENODATA = 61;
const ENOTSUP = 95;
const AT_FDCWD = -100;
const AT_SYMLINK_NOFOLLOW = 0x100;
/** the kernel's limits: XATTR_LIST_MAX and XATTR_SIZE_MAX */
const maxBytes = 64 * 1024;

const scratch = new Uint8Array(maxBytes);

/** Names of a file's extended attributes; links are not followed. Empty where the filesystem has none. */
export function listXattrs(path: Uint8Array): string[] {
  const length = Number(libc.llistxattr(cString(path), ptr(scratch), maxBytes));
  if (length < 0) {
    const number = errno();
    if (number === ENOTSUP) return [];
    throw new SysError("llistxattr", number, text(path));
  }
  const names = Buffer.from(scratch.subarray(0, length)).toString("utf8").split("\0");
  return names.filter((name) => name !== "");
}

/** The value of one extended attribute, or undefined when the file has none of that name. */
export function getXattr(path: Uint8Array, name: string): Uint8Array | undefined {
  const length = Number(libc.lgetxattr(cString(path), cString(name), ptr(scratch), maxBytes));
  if (length >= 0) return scratch.slice(0, length);
  const number = errno();
  if (number === ENODATA || number === ENOTSUP) return undefined;
  throw new SysError("lgetxattr", number, `${name} of ${text(path)}`);
}

/** Errors: SysError (EPERM: not privileged for that namespace, ENOTSUP: the filesystem has none). */
export function setXattr(path: Uint8Array, name: string, value: Uint8Array): void {
  // An empty view has no address, and the kernel wants none.
  const data = value.length === 0 ? null : ptr(value);
  check("lsetxattr", libc.lsetxattr(cString(path), cString(name), data, value.length, 0), `${name} of ${text(path)}`);
}

export type NodeType = "character" | "block" | "fifo";

const typeBits: Readonly<Record<NodeType, number>> = { character: 0o020000, block: 0o060000, fifo: 0o010000 };

/** `mknod(2)`; the process's umask applies to `mode`. Errors: SysError (EEXIST, EPERM). */
export function makeNode(
  path: Uint8Array,
  { type, mode, major, minor }: { type: NodeType; mode: number; major: number; minor: number },
): void {
  check("mknod", libc.mknod(cString(path), typeBits[type] | mode, deviceNumber(major, minor)), text(path));
}

/** glibc's `makedev`: the low 12 bits of the major and the low 8 of the minor keep their old places. */
function deviceNumber(major: number, minor: number): bigint {
  const [high, low] = [BigInt(major), BigInt(minor)];
  return ((high & 0xfffff000n) << 32n) | ((high & 0xfffn) << 8n) | ((low & 0xffffff00n) << 12n) | (low & 0xffn);
}

/** Sets access and modification time, both to `nanoseconds` since 1970; links are not followed. */
export function setTimes(path: Uint8Array, nanoseconds: bigint): void {
  const billion = 1_000_000_000n;
  const fraction = ((nanoseconds % billion) + billion) % billion;
  const seconds = (nanoseconds - fraction) / billion;
  const times = new BigInt64Array([seconds, fraction, seconds, fraction]);
  check("utimensat", libc.utimensat(AT_FDCWD, cString(path), ptr(times), AT_SYMLINK_NOFOLLOW), text(path));
}

function text(path: Uint8Array): string {
  return Buffer.from(path).toString("utf8");
}

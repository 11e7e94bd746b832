import { isAbsolute } from "node:path";
import { TransportError } from "./error.ts";

/** Where a guest's ports can be dialled. */
export type Address =
  /** AF_VSOCK, through the kernel's vhost-vsock */
  | { readonly kind: "vsock"; readonly cid: number }
  /** one Unix socket for all ports: `CONNECT port\n` → `OK n\n` (Firecracker, Cloud Hypervisor, vhost-device-vsock) */
  | { readonly kind: "hybrid"; readonly path: string }
  /** a directory with one Unix socket a port, `1027.sock` */
  | { readonly kind: "unix"; readonly directory: string };

/** What a user may write for a guest: an address, or the name of a VM that `vmapp run` started. */
export type Target = Address | { readonly kind: "name"; readonly name: string };

/** Longest path of a Unix socket, in bytes: `sun_path` less its terminator. */
export const maxSocketPathBytes = 107;

const namePattern = /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/;
/** {@link isVmName} in words, for errors */
export const vmNameRule = "a name is 1 to 63 of a-z, 0-9 and '-', starting and ending with a letter or digit";

/** Whether the text can name a VM: a host name's label, which is also a plain file name. */
export function isVmName(text: string): boolean {
  return namePattern.test(text);
}

function bad(text: string, reason: string): TransportError {
  return new TransportError(`"${text}" does not name a guest: ${reason}`, { code: "bad_target", target: text });
}

function parseCid(text: string, digits: string): Address {
  if (!/^\d{1,10}$/.test(digits)) throw bad(text, "vsock: wants a CID in decimal digits, as in vsock:3");
  const cid = Number(digits);
  if (cid < 3 || cid >= 0xffff_ffff) throw bad(text, "a guest's CID is 3 to 4294967294");
  return { kind: "vsock", cid };
}

function parsePath(text: string, scheme: string, path: string): string {
  if (!isAbsolute(path)) throw bad(text, `${scheme}: wants an absolute path, as in ${scheme}:/run/vm/guest`);
  if (path.includes("\0")) throw bad(text, "the path has a NUL byte");
  return path;
}

/** Reads `NAME`, `vsock:CID`, `hybrid:/path` or `unix:/dir`. Throws {@link TransportError} `bad_target`. */
export function parseTarget(text: string): Target {
  const colon = text.indexOf(":");
  if (colon < 0) {
    if (isVmName(text)) return { kind: "name", name: text };
    throw bad(text, vmNameRule);
  }
  const scheme = text.slice(0, colon);
  const rest = text.slice(colon + 1);
  switch (scheme) {
    case "vsock":
      return parseCid(text, rest);
    case "hybrid":
      return { kind: "hybrid", path: parsePath(text, scheme, rest) };
    case "unix":
      return { kind: "unix", directory: parsePath(text, scheme, rest) };
    default:
      throw bad(text, "a target is NAME, vsock:CID, hybrid:/path or unix:/dir");
  }
}

/** The text that {@link parseTarget} reads as this target. */
export function formatTarget(target: Target): string {
  switch (target.kind) {
    case "name":
      return target.name;
    case "vsock":
      return `vsock:${target.cid}`;
    case "hybrid":
      return `hybrid:${target.path}`;
    case "unix":
      return `unix:${target.directory}`;
  }
}

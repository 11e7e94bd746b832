/** Settings of the running system that every later process inherits. */
import { check, libc } from "./libc.ts";

const RLIMIT_NOFILE = 7;

/** `sethostname(2)`. Errors: SysError (EINVAL: over 64 bytes, EPERM). */
export function setHostname(name: string): void {
  const bytes = Buffer.from(name, "utf8");
  check("sethostname", libc.sethostname(bytes, bytes.length), name);
}

/** Limits on open descriptors, for this process and those it starts from now on. Errors: SysError (EPERM: over fs.nr_open). */
export function setOpenFileLimit({ soft, hard }: { soft: number; hard: number }): void {
  const limits = new BigUint64Array([BigInt(soft), BigInt(hard)]);
  check("setrlimit", libc.setrlimit(RLIMIT_NOFILE, limits), "RLIMIT_NOFILE");
}

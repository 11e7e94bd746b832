/** The kernel's random number generator, after the machine was cloned or restored (linux/random.h). */
import { closeSync, openSync } from "node:fs";
import { check, libc } from "./libc.ts";

const RNDADDENTROPY = 0x40085203;
const RNDRESEEDCRNG = 0x5207;

/**
 * Credits `seed` as entropy and has the generator take a new key at once. Errors: SysError (EPERM, ENOTTY), or the system error of
 * opening /dev/urandom; then nothing may be taken for reseeded.
 */
export function reseedRandom(seed: Uint8Array): void {
  // struct rand_pool_info: int entropy_count in bits, int buf_size in bytes, then the bytes
  const info = Buffer.alloc(8 + seed.length);
  info.writeInt32LE(seed.length * 8, 0);
  info.writeInt32LE(seed.length, 4);
  info.set(seed, 8);
  const fd = openSync("/dev/urandom", "r+");
  try {
    check("ioctl", libc.ioctl(fd, RNDADDENTROPY, info), "RNDADDENTROPY");
    check("ioctl", libc.ioctl(fd, RNDRESEEDCRNG, null), "RNDRESEEDCRNG");
  } finally {
    closeSync(fd);
  }
}

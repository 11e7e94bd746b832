/** Moves bytes between a socket and a pipe inside the kernel. The hot path of the bridge: no object a call. */
import { Errno, errno, libc } from "./libc.ts";

const SPLICE_F_MOVE = 1;
const SPLICE_F_NONBLOCK = 2;

/** answers of {@link moveBytes} below zero */
export const Blocked = -1;
export const Failed = -2;

/**
 * `splice(2)` of at most `limit` bytes; one end is a pipe, and both are non-blocking. Returns the count, 0 at the
 * source's end, {@link Blocked} when the source is empty or the target is full, {@link Failed} when an end has gone.
 */
export function moveBytes(from: number, to: number, limit: number): number {
  for (;;) {
    const count = libc.splice(from, null, to, null, limit, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
    if (count >= 0) return count;
    const number = errno();
    if (number === Errno.EAGAIN) return Blocked;
    if (number !== Errno.EINTR) return Failed;
  }
}

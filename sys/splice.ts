/**
 * Moves bytes out of one socket and into another, through a pipe inside the kernel or through memory of this process. The
 * hot path of the bridge: no object a call.
 */
import { Errno, errno, libc, ptr } from "./libc.ts";

const SPLICE_F_MOVE = 1;
const SPLICE_F_NONBLOCK = 2;
const MSG_DONTWAIT = 0x40;
const MSG_NOSIGNAL = 0x4000;

/** answers of the functions here below zero */
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

/** Memory for {@link receive} and {@link transmit}, outside the garbage collector's way. */
export class SocketBuffer {
  readonly #memory: Uint8Array;
  readonly #pointer: number;

  constructor(readonly size: number) {
    this.#memory = new Uint8Array(size);
    this.#pointer = ptr(this.#memory);
  }

  /** Receives into the buffer from `offset`; answers as {@link moveBytes} does. */
  receive(fd: number, offset: number): number {
    return settled(libc.recv(fd, this.#at(offset), this.size - offset, MSG_DONTWAIT));
  }

  /** Sends `count` bytes from `offset`; answers as {@link moveBytes} does. */
  transmit(fd: number, offset: number, count: number): number {
    return settled(libc.send(fd, this.#at(offset), count, MSG_DONTWAIT | MSG_NOSIGNAL));
  }

  #at(offset: number): ReturnType<typeof ptr> {
    return (this.#pointer + offset) as ReturnType<typeof ptr>;
  }
}

/** An interrupted call is as good as one that would block: the event queue reports the socket again. */
function settled(count: number): number {
  if (count >= 0) return count;
  const number = errno();
  return number === Errno.EAGAIN || number === Errno.EINTR ? Blocked : Failed;
}

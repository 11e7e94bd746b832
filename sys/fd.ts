/** Raw file descriptors: pipes, non-blocking reads and writes. The caller owns every fd it gets and closes it once. */

import { SysError } from "./errors.ts";
import { check, Errno, errno, libc, ptr } from "./libc.ts";

const O_NONBLOCK = 0o4000;
const O_CLOEXEC = 0o2000000;
const F_SETFD = 2;
const F_GETFL = 3;
const F_SETFL = 4;
const F_DUPFD_CLOEXEC = 1030;
const F_SETPIPE_SZ = 1031;
const F_GETPIPE_SZ = 1032;
const FD_CLOEXEC = 1;

export interface Pipe {
  readonly readFd: number;
  readonly writeFd: number;
}

/** A pipe with close-on-exec at both ends, both blocking. Errors: {@link SysError} (EMFILE, ENFILE). */
export function createPipe(): Pipe {
  const pair = new Int32Array(2);
  check("pipe2", libc.pipe2(ptr(pair), O_CLOEXEC));
  return { readFd: pair[0] as number, writeFd: pair[1] as number };
}

export function setNonBlocking(fd: number): void {
  const flags = check("fcntl", libc.fcntl(fd, F_GETFL, 0), `fd ${fd}`);
  check("fcntl", libc.fcntl(fd, F_SETFL, flags | O_NONBLOCK), `fd ${fd}`);
}

export function setCloseOnExec(fd: number): void {
  check("fcntl", libc.fcntl(fd, F_SETFD, FD_CLOEXEC), `fd ${fd}`);
}

/** A second, close-on-exec descriptor of the same open file. */
export function duplicateFd(fd: number): number {
  return check("fcntl", libc.fcntl(fd, F_DUPFD_CLOEXEC, 0), `fd ${fd}`);
}

/** Asks for a larger kernel buffer; the kernel may refuse (a user's pipe budget), which is no error for the caller. */
export function tryPipeSize(fd: number, bytes: number): boolean {
  return libc.fcntl(fd, F_SETPIPE_SZ, bytes) >= 0;
}

/** What a pipe can hold, in bytes; 0 for what is no pipe. */
export function pipeSize(fd: number): number {
  return Math.max(0, libc.fcntl(fd, F_GETPIPE_SZ, 0));
}

export function closeFd(fd: number): void {
  libc.close(fd);
}

export const WOULD_BLOCK = -1;

/**
 * Reads into `buffer` from `offset`, at most `length` bytes.
 * Returns the byte count, 0 at the end, or {@link WOULD_BLOCK}. Throws {@link SysError} otherwise; EINTR is retried.
 */
export function readFd(fd: number, buffer: Uint8Array, offset: number, length: number): number {
  for (;;) {
    const count = Number(libc.read(fd, ptr(buffer, offset), length));
    if (count >= 0) return count;
    const number = errno();
    if (number === Errno.EAGAIN) return WOULD_BLOCK;
    if (number !== Errno.EINTR) throw new SysError("read", number, `fd ${fd}`);
  }
}

/** Writes `buffer` from `offset`. Returns the bytes taken or {@link WOULD_BLOCK}; throws {@link SysError} (EPIPE, EIO). */
export function writeFd(fd: number, buffer: Uint8Array, offset: number): number {
  if (offset >= buffer.length) return 0;
  for (;;) {
    const count = Number(libc.write(fd, ptr(buffer, offset), buffer.length - offset));
    if (count >= 0) return count;
    const number = errno();
    if (number === Errno.EAGAIN) return WOULD_BLOCK;
    if (number !== Errno.EINTR) throw new SysError("write", number, `fd ${fd}`);
  }
}

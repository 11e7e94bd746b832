/**
 * Stream sockets as bare descriptors, for a loop that blocks in `epoll_wait`: accepting, connecting to a Unix socket,
 * ending one direction. Everything here is non-blocking and close-on-exec; the caller owns each fd it gets.
 */
import { SysError } from "./errors.ts";
import { check, cString, Errno, errno, libc, ptr } from "./libc.ts";

const AF_UNIX = 1;
const SOCK_STREAM = 1;
const SOCK_NONBLOCK = 0o4000;
const SOCK_CLOEXEC = 0o2000000;
const SOL_SOCKET = 1;
const SO_SNDBUF = 7;
const SHUT_WR = 1;
const MSG_DONTWAIT = 0x40;
const MSG_NOSIGNAL = 0x4000;
const pathOffset = 2;
/** longest path of a Unix socket, in bytes, without its terminator */
const maxPathBytes = 107;

function unixAddress(path: string): Uint8Array {
  const name = cString(path);
  if (name.length - 1 > maxPathBytes)
    throw new RangeError(`the path of a Unix socket has at most ${maxPathBytes} bytes: ${path}`);
  const bytes = new Uint8Array(pathOffset + maxPathBytes + 1);
  new DataView(bytes.buffer).setUint16(0, AF_UNIX, true);
  bytes.set(name, pathOffset);
  return bytes;
}

function openUnixSocket(): number {
  return check("socket", libc.socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), "AF_UNIX");
}

/** A listening Unix socket at a path where nothing is. Errors: {@link SysError} that names the path. */
export function listenUnix({ path, backlog }: { path: string; backlog: number }): number {
  const address = unixAddress(path);
  const fd = openUnixSocket();
  try {
    check("bind", libc.bind(fd, ptr(address), address.length), path);
    check("listen", libc.listen(fd, backlog), path);
  } catch (error) {
    libc.close(fd);
    throw error;
  }
  return fd;
}

/** Where to connect again and again, without building the address each time. */
export class UnixDialler {
  readonly #address: Uint8Array;

  constructor(readonly path: string) {
    this.#address = unixAddress(path);
  }

  /** A connected fd, or undefined while nothing listens there (or its queue is full). Throws {@link SysError} else. */
  connect(): number | undefined {
    const fd = openUnixSocket();
    if (libc.connect(fd, ptr(this.#address), this.#address.length) === 0) return fd;
    const number = errno();
    libc.close(fd);
    if (number === Errno.ENOENT || number === Errno.ECONNREFUSED || number === Errno.EAGAIN) return undefined;
    throw new SysError("connect", number, this.path);
  }
}

/** The next connection of a non-blocking listener, or undefined when there is none. Throws {@link SysError} (EMFILE). */
export function acceptConnection(listener: number): number | undefined {
  for (;;) {
    const fd = libc.accept4(listener, null, null, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0) return fd;
    const number = errno();
    if (number === Errno.EAGAIN) return undefined;
    if (number !== Errno.EINTR && number !== Errno.ECONNABORTED) throw new SysError("accept4", number);
  }
}

/** Asks for a larger send buffer; the kernel takes what its limit (`net.core.wmem_max`) allows, and doubles it. */
export function widenSendBuffer(fd: number, bytes: number): void {
  libc.setsockopt(fd, SOL_SOCKET, SO_SNDBUF, ptr(Int32Array.of(bytes)), 4);
}

/** Tells the peer that nothing more comes; reading goes on. A peer that has gone already is no error. */
export function endWriting(fd: number): void {
  libc.shutdown(fd, SHUT_WR);
}

const nothing = new Uint8Array(1);

/** Whether the peer still reads: false once it has closed both directions. Sends nothing. */
export function peerReads(fd: number): boolean {
  return libc.send(fd, ptr(nothing), 0, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0;
}

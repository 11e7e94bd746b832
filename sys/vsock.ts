/** AF_VSOCK stream sockets. Layout of `sockaddr_vm` as in linux/vm_sockets.h: 16 bytes, native byte order. */
import { SysError } from "./errors.ts";
import { check, errno, libc, ptr } from "./libc.ts";

const AF_VSOCK = 40;
const SOCK_STREAM = 1;
const SOCK_CLOEXEC = 0o2000000;
const addressBytes = 16;

/** Any CID of this machine, for `bind`. */
export const cidAny = 0xffffffff;
/** The guest itself, over vsock loopback. */
export const cidLocal = 1;

function address(cid: number, port: number): Uint8Array {
  const bytes = new Uint8Array(addressBytes);
  const view = new DataView(bytes.buffer);
  view.setUint16(0, AF_VSOCK, true);
  view.setUint32(4, port, true);
  view.setUint32(8, cid, true);
  return bytes;
}

function openSocket(): number {
  return check("socket", libc.socket(AF_VSOCK, SOCK_STREAM | SOCK_CLOEXEC, 0), "AF_VSOCK");
}

/**
 * A listening socket on every CID of this machine. Give the fd to `net.createServer().listen({ fd })`, which owns it then.
 * Errors: {@link SysError} with the port named (EADDRINUSE, EAFNOSUPPORT, EACCES).
 */
export function listenVsock({ port, backlog }: { port: number; backlog: number }): number {
  const fd = openSocket();
  try {
    check("bind", libc.bind(fd, ptr(address(cidAny, port)), addressBytes), `vsock port ${port}`);
    check("listen", libc.listen(fd, backlog), `vsock port ${port}`);
  } catch (error) {
    libc.close(fd);
    throw error;
  }
  return fd;
}

/**
 * A connected socket; blocks for the length of one connect (the kernel's limit is 2 s). Give the fd to `net.connect({ fd })`.
 * Errors: {@link SysError} (ECONNRESET: nobody listens there, ENODEV: no such CID, ETIMEDOUT).
 */
export function connectVsock({ cid, port }: { cid: number; port: number }): number {
  const fd = openSocket();
  if (libc.connect(fd, ptr(address(cid, port)), addressBytes) < 0) {
    const error = new SysError("connect", errno(), `vsock ${cid}:${port}`);
    libc.close(fd);
    throw error;
  }
  return fd;
}

/** CID of the peer of an accepted socket. Throws {@link SysError} (ENOTCONN: it has already gone). */
export function peerCid(fd: number): number {
  const bytes = new Uint8Array(addressBytes);
  const length = new Uint32Array([addressBytes]);
  check("getpeername", libc.getpeername(fd, ptr(bytes), ptr(length)), `fd ${fd}`);
  const view = new DataView(bytes.buffer);
  if (view.getUint16(0, true) !== AF_VSOCK) throw new SysError("getpeername", 97, `fd ${fd}`);
  return view.getUint32(8, true);
}

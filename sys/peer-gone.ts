/** Whether anybody can still receive what is written to a descriptor: after a peer's half-close only asking tells. */
import { Errno, errno, libc, ptr } from "./libc.ts";

const POLLERR = 0x8;
const POLLHUP = 0x10;
const POLLNVAL = 0x20;
const ENOTCONN = 107;

const nothing = new Uint8Array(1);

/** For sockets and pipes. Sends nothing and never blocks. */
export function peerIsGone(fd: number): boolean {
  const request = new Uint8Array(8);
  const view = new DataView(request.buffer);
  view.setInt32(0, fd, true);
  if (libc.poll(ptr(request), 1, 0) > 0) {
    const events = view.getUint16(6, true);
    if ((events & (POLLERR | POLLHUP | POLLNVAL)) !== 0) return true;
  }
  // A vsock whose peer has closed shows neither event, but it refuses to take even no bytes at all.
  if (Number(libc.write(fd, ptr(nothing), 0)) >= 0) return false;
  const number = errno();
  return number === Errno.EPIPE || number === ENOTCONN;
}

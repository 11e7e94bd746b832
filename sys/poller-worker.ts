/**
 * The poller's thread: sits in `epoll_wait` and posts what became ready. It owns nothing: the main thread opens, arms and
 * closes every descriptor. Messages are flat arrays `[token, events, token, events, …]`.
 */
import { check, Errno, errno, libc, ptr } from "./libc.ts";

declare const self: {
  onmessage: ((message: { data: number }) => void) | null;
  postMessage(message: number[]): void;
};

/** `struct epoll_event` is packed on x86-64 alone */
const eventBytes = process.arch === "x64" ? 12 : 16;
const tokenOffset = eventBytes - 8;
const maxEvents = 128;

self.onmessage = ({ data: epollFd }) => {
  const buffer = new Uint8Array(eventBytes * maxEvents);
  const view = new DataView(buffer.buffer);
  const address = ptr(buffer);
  for (;;) {
    const count = libc.epoll_wait(epollFd, address, maxEvents, -1);
    if (count < 0) {
      if (errno() === Errno.EINTR) continue;
      check("epoll_wait", count);
    }
    const ready: number[] = [];
    for (let index = 0; index < count; index++) {
      const offset = index * eventBytes;
      ready.push(view.getUint32(offset + tokenOffset, true), view.getUint32(offset, true));
    }
    self.postMessage(ready);
  }
};

/**
 * `epoll(7)` for a loop that blocks in it: readiness of many descriptors in one buffer, without an object an event. For
 * a program that has an event loop of its own, see `poller.ts`.
 */
import { SysError } from "./errors.ts";
import { check, Errno, errno, libc, ptr } from "./libc.ts";

const EPOLL_CLOEXEC = 0o2000000;
const EPOLL_CTL_ADD = 1;
const EPOLL_CTL_DEL = 2;
const EPOLL_CTL_MOD = 3;

export const Readiness = {
  readable: 0x1,
  writable: 0x4,
  failed: 0x8,
  /** both directions of a socket have ended */
  hungUp: 0x10,
  /** the peer of a socket has ended its writing, or has gone */
  peerEnded: 0x2000,
  /** not an event: report a change once, instead of a state for as long as it lasts */
  onChange: 0x80000000,
} as const;

/** `struct epoll_event` is packed on x86-64 alone */
const eventBytes = process.arch === "x64" ? 12 : 16;
const tokenOffset = eventBytes - 8;

export class EventQueue {
  readonly #fd: number;
  readonly #events: DataView;
  readonly #eventsPointer: ReturnType<typeof ptr>;
  readonly #capacity: number;
  readonly #change = new DataView(new ArrayBuffer(eventBytes));
  readonly #changePointer: ReturnType<typeof ptr>;

  /** @param capacity most events that one wait answers */
  constructor(capacity: number) {
    this.#fd = check("epoll_create1", libc.epoll_create1(EPOLL_CLOEXEC));
    this.#capacity = capacity;
    this.#events = new DataView(new ArrayBuffer(eventBytes * capacity));
    this.#eventsPointer = ptr(this.#events);
    this.#changePointer = ptr(this.#change);
  }

  /** @param token a u32 that events of this descriptor carry */
  add(fd: number, interest: number, token: number): void {
    this.#control(EPOLL_CTL_ADD, fd, interest, token);
  }

  change(fd: number, interest: number, token: number): void {
    this.#control(EPOLL_CTL_MOD, fd, interest, token);
  }

  remove(fd: number): void {
    this.#control(EPOLL_CTL_DEL, fd, 0, 0);
  }

  /** Blocks; a negative timeout is none. Returns how many events {@link eventsAt} and {@link tokenAt} now have. */
  wait(timeoutMs: number): number {
    const count = libc.epoll_wait(this.#fd, this.#eventsPointer, this.#capacity, timeoutMs);
    if (count >= 0) return count;
    const number = errno();
    if (number === Errno.EINTR) return 0;
    throw new SysError("epoll_wait", number);
  }

  eventsAt(index: number): number {
    return this.#events.getUint32(index * eventBytes, true);
  }

  tokenAt(index: number): number {
    return this.#events.getUint32(index * eventBytes + tokenOffset, true);
  }

  #control(operation: number, fd: number, interest: number, token: number): void {
    this.#change.setUint32(0, interest, true);
    this.#change.setUint32(tokenOffset, token, true);
    check("epoll_ctl", libc.epoll_ctl(this.#fd, operation, fd, this.#changePointer), `fd ${fd}`);
  }
}

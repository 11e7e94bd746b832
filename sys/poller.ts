/**
 * Readiness of descriptors that Bun's own streams cannot carry (pipes of children, pty masters): one Worker waits in
 * `epoll_wait`, the main thread arms one-shot interests. Reads and writes stay on the main thread and never block.
 */
import { check, libc, ptr } from "./libc.ts";
import { startWorker } from "./worker.ts";

const EPOLL_CLOEXEC = 0o2000000;
const EPOLL_CTL_ADD = 1;
const EPOLL_CTL_DEL = 2;
const EPOLL_CTL_MOD = 3;
const EPOLLIN = 0x1;
const EPOLLOUT = 0x4;
const EPOLLERR = 0x8;
const EPOLLHUP = 0x10;
const EPOLLRDHUP = 0x2000;
const EPOLLONESHOT = 0x40000000;

/** `struct epoll_event` is packed on x86-64 alone */
const eventBytes = process.arch === "x64" ? 12 : 16;
const tokenOffset = eventBytes - 8;
const eventBuffer = new Uint8Array(eventBytes);
const eventView = new DataView(eventBuffer.buffer);

let epollFd = -1;
let nextToken = 1;
const watches = new Map<number, Watch>();

function start(): void {
  epollFd = check("epoll_create1", libc.epoll_create1(EPOLL_CLOEXEC));
  const worker = startWorker("sys/poller-worker.ts");
  worker.unref();
  worker.onmessage = ({ data }: MessageEvent<number[]>) => {
    for (let index = 0; index < data.length; index += 2) {
      // A token that is gone belonged to a descriptor closed after the event was posted.
      watches.get(data[index] as number)?.ready(data[index + 1] as number);
    }
  };
  worker.onerror = (event) => {
    throw new Error(`the poller's thread failed: ${event.message}`);
  };
  worker.postMessage(epollFd);
}

/** Interest in one descriptor. `close` before the descriptor itself is closed. */
export class Watch {
  readonly #fd: number;
  readonly #token: number;
  #registered = false;
  #onReadable: (() => void) | undefined;
  #onWritable: (() => void) | undefined;
  #onHungUp: (() => void) | undefined;

  /** @param fd a non-blocking descriptor that epoll takes; it stays the caller's */
  constructor(fd: number) {
    if (epollFd < 0) start();
    this.#fd = fd;
    this.#token = nextToken;
    nextToken = nextToken >= 0xffffffff ? 1 : nextToken + 1;
    watches.set(this.#token, this);
  }

  /** Calls back once when a read would not block: data, the end, or an error. */
  whenReadable(callback: () => void): void {
    this.#onReadable = callback;
    this.#arm();
  }

  /** Calls back once when a write would not block: room, or a reader that is gone. */
  whenWritable(callback: () => void): void {
    this.#onWritable = callback;
    this.#arm();
  }

  /** Calls back once when a socket's peer has closed its writing side or is gone, whatever is still unread. */
  whenHungUp(callback: () => void): void {
    this.#onHungUp = callback;
    this.#arm();
  }

  /** Ends the interest; callbacks that wait are dropped. */
  close(): void {
    this.#onReadable = undefined;
    this.#onWritable = undefined;
    this.#onHungUp = undefined;
    if (!watches.delete(this.#token) || !this.#registered) return;
    libc.epoll_ctl(epollFd, EPOLL_CTL_DEL, this.#fd, ptr(eventBuffer));
  }

  /** @internal called with the events that the poller's thread saw */
  ready(events: number): void {
    const failed = (events & (EPOLLERR | EPOLLHUP)) !== 0;
    const readable = failed || (events & EPOLLIN) !== 0 ? this.#onReadable : undefined;
    const writable = failed || (events & EPOLLOUT) !== 0 ? this.#onWritable : undefined;
    const hungUp = failed || (events & EPOLLRDHUP) !== 0 ? this.#onHungUp : undefined;
    if (readable !== undefined) this.#onReadable = undefined;
    if (writable !== undefined) this.#onWritable = undefined;
    if (hungUp !== undefined) this.#onHungUp = undefined;
    // One-shot: whichever interest did not fire has to be armed again.
    if ((this.#onReadable ?? this.#onWritable ?? this.#onHungUp) !== undefined) this.#arm();
    readable?.();
    writable?.();
    hungUp?.();
  }

  #arm(): void {
    let events = EPOLLONESHOT;
    if (this.#onReadable !== undefined) events |= EPOLLIN;
    if (this.#onWritable !== undefined) events |= EPOLLOUT;
    if (this.#onHungUp !== undefined) events |= EPOLLRDHUP;
    eventView.setUint32(0, events, true);
    eventView.setUint32(tokenOffset, this.#token, true);
    const operation = this.#registered ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;
    check("epoll_ctl", libc.epoll_ctl(epollFd, operation, this.#fd, ptr(eventBuffer)), `fd ${this.#fd}`);
    this.#registered = true;
  }
}

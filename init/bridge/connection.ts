/**
 * One connection of the host and the one to the app that it is joined with. It owns both sockets. Each direction ends by
 * itself; the sockets are closed once both are over.
 */

import { type EventQueue, Readiness } from "#sys/event-queue.ts";
import { closeFd, readFd } from "#sys/fd.ts";
import { peerReads, widenSendBuffer } from "#sys/stream-socket.ts";
import type { Carrier } from "./carrier.ts";
import { Direction } from "./direction.ts";

/**
 * - `waiting`: nothing listens on the app's socket yet; nothing is read from the host
 * - `joined`: bytes flow
 * - `closed`
 */
type ConnectionState = "waiting" | "joined" | "closed";

const { readable, writable, failed, hungUp, peerEnded, onChange } = Readiness;
const whileReading = readable | peerEnded;
/** After the end was read it stays readable for good: only changes are of interest. */
const whileNotReading = (peerEnded | onChange) >>> 0;

/** the kernel makes it 512 KiB; with a full carrier a direction stays below the 1 MiB that the contract allows */
const sendBufferBytes = 256 * 1024;
const discardBytes = 4 * 1024 * 1024;
const discardBuffer = new Uint8Array(64 * 1024);

/** One of the two sockets, as the event queue knows it. */
class End {
  fd = -1;
  interest = 0;

  constructor(
    readonly events: EventQueue,
    readonly token: number,
  ) {}

  open(fd: number): void {
    this.fd = fd;
    widenSendBuffer(fd, sendBufferBytes);
    this.interest = whileNotReading;
    this.events.add(fd, this.interest, this.token);
  }

  watch(interest: number): void {
    if (interest === this.interest || this.fd < 0) return;
    this.interest = interest;
    this.events.change(this.fd, interest, this.token);
  }

  close(): void {
    if (this.fd < 0) return;
    // The queue would drop it by itself, unless a child had inherited it.
    this.events.remove(this.fd);
    closeFd(this.fd);
    this.fd = -1;
  }
}

export class Connection {
  state: ConnectionState = "waiting";
  /** the host closed both directions before the app was there */
  abandoned = false;
  readonly #host: End;
  readonly #app: End;
  readonly #toApp: Direction;
  readonly #toHost: Direction;

  constructor({
    hostFd,
    events,
    toApp,
    toHost,
    slot,
    hostToken,
    appToken,
    openedAt,
  }: {
    hostFd: number;
    events: EventQueue;
    toApp: Carrier;
    toHost: Carrier;
    slot: number;
    hostToken: number;
    appToken: number;
    openedAt: number;
  }) {
    this.#host = new End(events, hostToken);
    this.#app = new End(events, appToken);
    this.#toApp = new Direction(toApp);
    this.#toHost = new Direction(toHost);
    this.slot = slot;
    this.openedAt = openedAt;
    this.#host.open(hostFd);
  }

  /** the forwarder's place for it */
  readonly slot: number;
  /** milliseconds of the loop's clock; set again when the app has been reached */
  openedAt: number;

  /** Whether any byte has come from either side. */
  get used(): boolean {
    return this.#toApp.used || this.#toHost.used;
  }

  /** Whether a direction has stopped for the sake of others and wants to go on. */
  get wantsTurn(): boolean {
    return this.state === "joined" && (this.#toApp.waitsFor === "turn" || this.#toHost.waitsFor === "turn");
  }

  /** Starts to forward. Takes the app's socket over. */
  join(appFd: number): void {
    this.state = "joined";
    this.#app.open(appFd);
    this.#pumpToApp();
    this.#pumpToHost();
    this.#settle();
  }

  onHostEvents(events: number): void {
    if (this.state === "waiting") {
      this.abandoned = !peerReads(this.#host.fd);
      return;
    }
    if (this.state === "closed") return;
    if (events & (readable | peerEnded | failed | hungUp)) this.#pumpToApp();
    if (events & (writable | failed | hungUp)) this.#pumpToHost();
    if (events & (peerEnded | failed | hungUp) && !peerReads(this.#host.fd)) this.#toHost.breakOff();
    this.#settle();
  }

  onAppEvents(events: number): void {
    if (this.state !== "joined") return;
    if (events & (readable | peerEnded | failed | hungUp)) this.#pumpToHost();
    if (events & (writable | failed | hungUp)) this.#pumpToApp();
    if (events & (peerEnded | failed | hungUp) && !peerReads(this.#app.fd)) this.#toApp.breakOff();
    this.#settle();
  }

  takeTurn(): void {
    if (this.#toApp.waitsFor === "turn") this.#pumpToApp();
    if (this.#toHost.waitsFor === "turn") this.#pumpToHost();
    this.#settle();
  }

  close(): void {
    if (this.state === "closed") return;
    this.state = "closed";
    this.#toApp.breakOff();
    this.#toHost.breakOff();
    // A peer whose last bytes nobody read would see its connection reset instead of ended.
    if (this.#toApp.state === "broken") discardUnread(this.#host.fd);
    if (this.#toHost.state === "broken" && this.#app.fd >= 0) discardUnread(this.#app.fd);
    this.#host.close();
    this.#app.close();
  }

  #pumpToApp(): void {
    this.#toApp.pump(this.#host.fd, this.#app.fd);
  }

  #pumpToHost(): void {
    this.#toHost.pump(this.#app.fd, this.#host.fd);
  }

  #settle(): void {
    if (this.#toApp.over && this.#toHost.over) {
      this.close();
      return;
    }
    this.#host.watch(interestOf(this.#toApp, this.#toHost));
    this.#app.watch(interestOf(this.#toHost, this.#toApp));
  }
}

/** What to watch a socket for that `reading` is fed from and `writing` feeds. */
function interestOf(reading: Direction, writing: Direction): number {
  const reads = reading.state === "flowing" && reading.waitsFor === "source" ? whileReading : whileNotReading;
  return writing.waitsFor === "target" ? (reads | writable) >>> 0 : reads;
}

function discardUnread(fd: number): void {
  try {
    for (let discarded = 0; discarded < discardBytes; ) {
      const count = readFd(fd, discardBuffer, 0, discardBuffer.length);
      if (count <= 0) return;
      discarded += count;
    }
  } catch {
    // The peer has reset the connection: there is nothing left to be kind about.
  }
}

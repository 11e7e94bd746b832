/**
 * The bridge's forwarder: joins each connection of the host with one to the app's socket, and moves bytes without
 * looking at them (companion, "Connections"). It is a program of its own, so its loop may block in `epoll_wait`; the loop
 * makes no objects, and a signal ends it by its default action.
 */
import { EventQueue, Readiness } from "#sys/event-queue.ts";
import { closeFd } from "#sys/fd.ts";
import type { Log } from "#sys/log.ts";
import { acceptConnection, UnixDialler } from "#sys/stream-socket.ts";
import { BufferCarrier, BufferPool } from "./buffer-carrier.ts";
import { BusyPolling } from "./busy-polling.ts";
import type { Carrier } from "./carrier.ts";
import { Connection } from "./connection.ts";
import { MixedCarrier } from "./mixed-carrier.ts";
import { PipePool } from "./pipe-pool.ts";
import { Repeats } from "./repeats.ts";

const maxConnections = 256;
const retryMs = 50;
const waitForAppMs = 30_000;
/** a connection on which neither side says anything is dropped after this long */
const silenceMs = 10_000;
const silenceCheckMs = 1_000;
const listenerPauseMs = 1_000;
const eventsAtOnce = 128;
const smallBytes = 16 * 1024;
const largeBytes = 256 * 1024;
const listenerToken = 0;

export interface ForwarderOptions {
  /** non-blocking listening socket; the forwarder owns it */
  readonly listenerFd: number;
  /** path of the app's socket */
  readonly appSocket: string;
  /** why a peer may not be served, or undefined */
  readonly refusal: (fd: number) => string | undefined;
  /**
   * how what is large is carried to the host: inside the kernel, or through this process. Over AF_VSOCK each spliced page
   * becomes a packet, and packets of 64 KiB are worth the copy.
   */
  readonly toHost: "splice" | "copy";
  readonly log: Log;
}

export class Forwarder {
  readonly #listenerFd: number;
  readonly #app: UnixDialler;
  readonly #refusal: (fd: number) => string | undefined;
  readonly #log: Log;
  readonly #events = new EventQueue(eventsAtOnce);
  readonly #polling = new BusyPolling({ events: this.#events });
  readonly #carrierToApp: () => Carrier;
  readonly #carrierToHost: () => Carrier;
  /** index is the slot, which the tokens of a connection's two sockets are made of */
  readonly #slots: (Connection | undefined)[] = [];
  #open = 0;
  /** slots whose connection has stopped for the sake of the others; two lists that change places */
  #turns: number[] = [];
  #formerTurns: number[] = [];
  /** slots whose connection has closed; free once no event of the batch can be meant for it */
  readonly #closed: number[] = [];
  /** in the order of their arrival, in which the app must see them: for it a newer connection replaces an older */
  readonly #waiting: Connection[] = [];
  /** joined, and silent so far */
  readonly #silent = new Set<Connection>();
  #nextRetry = 0;
  #nextSilenceCheck = 0;
  #listenAgainAt: number | undefined;
  #waitingSince: number | undefined;
  readonly #refusals: Repeats;
  readonly #failures: Repeats;

  constructor({ listenerFd, appSocket, refusal, toHost, log }: ForwarderOptions) {
    this.#listenerFd = listenerFd;
    this.#app = new UnixDialler(appSocket);
    this.#refusal = refusal;
    this.#log = log;
    const [pipes, small, large] = [new PipePool(), new BufferPool(smallBytes), new BufferPool(largeBytes)];
    this.#carrierToApp = () => new MixedCarrier(small, pipes);
    this.#carrierToHost = toHost === "splice" ? this.#carrierToApp : () => new BufferCarrier(large);
    this.#refusals = new Repeats(log, "connection refused");
    this.#failures = new Repeats(log, "connection failed");
    this.#events.add(listenerFd, Readiness.readable, listenerToken);
  }

  /** Never returns. */
  run(): never {
    for (;;) this.#turn();
  }

  #turn(): void {
    const count = this.#polling.wait(this.#timeout());
    let accepts = false;
    for (let index = 0; index < count; index += 1) {
      const token = this.#events.tokenAt(index);
      // Last, so that no new connection gets a slot that has further events in this batch.
      if (token === listenerToken) accepts = true;
      else this.#deliver(token, this.#events.eventsAt(index));
    }
    if (this.#turns.length > 0) this.#takeTurns();
    if (accepts) this.#acceptAll();
    if (this.#minds) this.#mindTheClock(performance.now());
    if (this.#closed.length > 0) this.#forgetClosed();
  }

  /** Whether anything here depends on the time. */
  get #minds(): boolean {
    return this.#waiting.length > 0 || this.#silent.size > 0 || this.#listenAgainAt !== undefined;
  }

  #mindTheClock(now: number): void {
    if (this.#waiting.length > 0 && now >= this.#nextRetry) this.#reachApp(now);
    if (this.#silent.size > 0 && now >= this.#nextSilenceCheck) this.#dropSilent(now);
    if (this.#listenAgainAt !== undefined && now >= this.#listenAgainAt) this.#listenAgain();
  }

  #timeout(): number {
    if (this.#turns.length > 0) return 0;
    if (!this.#minds) return -1;
    let due = Number.POSITIVE_INFINITY;
    if (this.#waiting.length > 0) due = this.#nextRetry;
    if (this.#silent.size > 0) due = Math.min(due, this.#nextSilenceCheck);
    if (this.#listenAgainAt !== undefined) due = Math.min(due, this.#listenAgainAt);
    return Math.max(0, Math.ceil(due - performance.now()));
  }

  #deliver(token: number, events: number): void {
    const slot = (token >> 1) - 1;
    const connection = this.#slots[slot];
    if (connection === undefined || connection.state === "closed") return;
    try {
      if (token & 1) connection.onAppEvents(events);
      else connection.onHostEvents(events);
    } catch (error) {
      this.#fail(connection, error);
    }
    this.#settle(slot, connection);
  }

  #takeTurns(): void {
    const due = this.#turns;
    this.#turns = this.#formerTurns;
    this.#formerTurns = due;
    for (let index = 0; index < due.length; index += 1) {
      const slot = due[index] as number;
      const connection = this.#slots[slot];
      if (!connection?.wantsTurn) continue;
      try {
        connection.takeTurn();
      } catch (error) {
        this.#fail(connection, error);
      }
      this.#settle(slot, connection);
    }
    due.length = 0;
  }

  /** After a connection has moved bytes: is it over, or does it want to go on? */
  #settle(slot: number, connection: Connection): void {
    if (connection.state === "closed") this.#closed.push(slot);
    else if (connection.wantsTurn && !this.#turns.includes(slot)) this.#turns.push(slot);
  }

  #acceptAll(): void {
    for (;;) {
      let fd: number | undefined;
      try {
        fd = acceptConnection(this.#listenerFd);
      } catch (error) {
        this.#failures.note(error instanceof Error ? error.message : String(error));
        this.#events.remove(this.#listenerFd);
        this.#listenAgainAt = performance.now() + listenerPauseMs;
        return;
      }
      if (fd === undefined) return;
      const refused =
        this.#open >= maxConnections ? `there are ${maxConnections} connections already` : this.#refusal(fd);
      if (refused === undefined) this.#admit(fd);
      else {
        closeFd(fd);
        this.#refusals.note(refused);
      }
    }
  }

  #listenAgain(): void {
    this.#listenAgainAt = undefined;
    this.#events.add(this.#listenerFd, Readiness.readable, listenerToken);
  }

  #admit(fd: number): void {
    let slot = this.#slots.indexOf(undefined);
    if (slot < 0) slot = this.#slots.length;
    const hostToken = (slot + 1) * 2;
    this.#open += 1;
    const connection = new Connection({
      hostFd: fd,
      events: this.#events,
      toApp: this.#carrierToApp(),
      toHost: this.#carrierToHost(),
      slot,
      hostToken,
      appToken: hostToken + 1,
      openedAt: performance.now(),
    });
    this.#slots[slot] = connection;
    this.#waiting.push(connection);
    this.#nextRetry = 0;
  }

  /** Joins the waiting connections with the app in the order of their arrival, as far as it can be reached. */
  #reachApp(now: number): void {
    this.#nextRetry = now + retryMs;
    this.#dropSuperseded();
    while (this.#waiting.length > 0) {
      const connection = this.#waiting[0] as Connection;
      try {
        const appFd = this.#app.connect();
        if (appFd === undefined) break;
        connection.openedAt = now;
        connection.join(appFd);
        this.#silent.add(connection);
      } catch (error) {
        this.#fail(connection, error);
      }
      this.#settle(connection.slot, connection);
      this.#waiting.shift();
    }
    if (this.#waiting.length === 0) this.#noteAppIsThere(now);
    else this.#keepWaiting(now);
  }

  /**
   * Of the connections that the host has given up while they waited, only the newest is still delivered, and none that
   * a live one has followed: the app would take its end for its own.
   */
  #dropSuperseded(): void {
    for (let index = this.#waiting.length - 2; index >= 0; index -= 1) {
      if (this.#waiting[index]?.abandoned) this.#close(this.#waiting.splice(index, 1)[0]);
    }
  }

  #keepWaiting(now: number): void {
    if (this.#waitingSince === undefined) {
      this.#waitingSince = now;
      this.#log.info("waiting for the app", { socket: this.#app.path });
    }
    while (this.#waiting.length > 0 && now - (this.#waiting[0] as Connection).openedAt >= waitForAppMs) {
      this.#close(this.#waiting.shift());
      this.#failures.note(`no app listens on ${this.#app.path}`);
    }
  }

  #noteAppIsThere(now: number): void {
    if (this.#waitingSince === undefined) return;
    this.#log.info("the app is there", { waitedMs: Math.round(now - this.#waitingSince) });
    this.#waitingSince = undefined;
  }

  #dropSilent(now: number): void {
    this.#nextSilenceCheck = now + silenceCheckMs;
    for (const connection of this.#silent) {
      if (connection.used || connection.state === "closed") this.#silent.delete(connection);
      else if (now - connection.openedAt >= silenceMs) {
        this.#silent.delete(connection);
        this.#close(connection);
        this.#failures.note("neither side said anything");
      }
    }
  }

  #close(connection: Connection | undefined): void {
    if (connection === undefined || connection.state === "closed") return;
    connection.close();
    this.#closed.push(connection.slot);
  }

  #fail(connection: Connection, error: unknown): void {
    this.#failures.note(error instanceof Error ? error.message : String(error));
    connection.close();
  }

  #forgetClosed(): void {
    for (let index = 0; index < this.#closed.length; index += 1) {
      const slot = this.#closed[index] as number;
      const connection = this.#slots[slot];
      if (connection === undefined) continue;
      this.#slots[slot] = undefined;
      this.#open -= 1;
      this.#silent.delete(connection);
    }
    this.#closed.length = 0;
  }
}

/**
 * Every order in which the four ends of a bridged connection may be closed, over bare descriptors, so that the same
 * scenarios run between Unix sockets here and over AF_VSOCK inside a guest.
 */
import { closeFd, readFd, WOULD_BLOCK, writeFd } from "#sys/fd.ts";
import { libc } from "#sys/libc.ts";
import { pattern } from "./bridge-pattern.ts";

const SHUT_RD = 0;
const SHUT_WR = 1;
const patienceMs = 20_000;

/** Where the two ends come from. Each is a non-blocking descriptor. */
export interface Ends {
  connectHost(): number | Promise<number>;
  acceptApp(): Promise<number>;
}

type Step = "host ends writing" | "host stops reading" | "app ends writing" | "app stops reading";
const steps: readonly Step[] = ["host ends writing", "host stops reading", "app ends writing", "app stops reading"];

export interface Scenario {
  readonly name: string;
  run(ends: Ends): Promise<void>;
}

class Peer {
  reads = true;
  writes = true;
  /** what the other end has written and this one has not read yet */
  expected: Buffer[] = [];

  constructor(
    readonly name: string,
    readonly fd: number,
  ) {}

  async send(bytes: Buffer, to: Peer): Promise<void> {
    if (to.reads) to.expected.push(bytes);
    for (let offset = 0; offset < bytes.length; ) {
      let count: number;
      try {
        count = writeFd(this.fd, bytes, offset);
      } catch (error) {
        if (!to.reads) return;
        throw error;
      }
      if (count === WOULD_BLOCK) {
        if (!to.reads) return;
        await to.drain();
      } else offset += count;
    }
  }

  /** bytes read ahead while the other end was writing */
  #got: Buffer[] = [];
  #atEnd = false;

  async drain(): Promise<boolean> {
    const buffer = Buffer.alloc(256 * 1024);
    const count = readFd(this.fd, buffer, 0, buffer.length);
    if (count === WOULD_BLOCK) await sleep(2);
    else if (count === 0) this.#atEnd = true;
    else this.#got.push(buffer.subarray(0, count));
    return count > 0;
  }

  /** Reads to the end and compares with everything that was sent. */
  async expectAllThenEnd(): Promise<void> {
    const deadline = Date.now() + patienceMs;
    while (!this.#atEnd) {
      if (Date.now() > deadline) throw new Error(`${this.name}: no end, ${this.#count()} bytes so far`);
      await this.drain();
    }
    const expected = Buffer.concat(this.expected);
    if (!Buffer.concat(this.#got).equals(expected))
      throw new Error(`${this.name}: ${this.#count()} bytes, not the ${expected.length} that were sent`);
  }

  async expectBytes(): Promise<void> {
    const expected = Buffer.concat(this.expected);
    const deadline = Date.now() + patienceMs;
    while (this.#count() < expected.length) {
      if (this.#atEnd || Date.now() > deadline)
        throw new Error(`${this.name}: ${this.#count()} bytes instead of ${expected.length}`);
      await this.drain();
    }
    if (!Buffer.concat(this.#got).equals(expected)) throw new Error(`${this.name}: other bytes than were sent`);
  }

  /** Resolves when the connection is over for this end, cleanly or not. */
  async expectOver(): Promise<void> {
    const deadline = Date.now() + patienceMs;
    while (!this.#atEnd) {
      if (Date.now() > deadline) throw new Error(`${this.name}: still open`);
      try {
        await this.drain();
      } catch {
        return;
      }
    }
  }

  #count(): number {
    return this.#got.reduce((sum, chunk) => sum + chunk.length, 0);
  }
}

async function withPeers(ends: Ends, run: (host: Peer, app: Peer) => Promise<void>): Promise<void> {
  const hostFd = await ends.connectHost();
  const host = new Peer("host", hostFd);
  const app = new Peer("app", await ends.acceptApp());
  try {
    await host.send(Buffer.from("hello app"), app);
    await app.expectBytes();
    await app.send(Buffer.from("hello host"), host);
    await host.expectBytes();
    await run(host, app);
  } finally {
    for (const peer of [host, app]) if (!gone.has(peer)) closeFd(peer.fd);
  }
}

const gone = new WeakSet<Peer>();

/** Closes both directions at once. */
function closeFully(peer: Peer): void {
  gone.add(peer);
  closeFd(peer.fd);
}

async function takeStep(step: Step, host: Peer, app: Peer): Promise<void> {
  const [peer, other] = step.startsWith("host") ? [host, app] : [app, host];
  if (step.endsWith("stops reading")) {
    peer.reads = false;
    libc.shutdown(peer.fd, SHUT_RD);
    await sleep(5);
    return;
  }
  await peer.send(pattern(300_000, step.length), other);
  libc.shutdown(peer.fd, SHUT_WR);
  peer.writes = false;
  if (other.reads) await other.expectAllThenEnd();
}

function permutations<T>(items: readonly T[]): T[][] {
  if (items.length < 2) return [[...items]];
  return items.flatMap((item, index) =>
    permutations([...items.slice(0, index), ...items.slice(index + 1)]).map((rest) => [item, ...rest]),
  );
}

const answerAfterEnd: Scenario[] = (["host", "app"] as const).map((side) => ({
  name: `the ${side} asks and ends its writing, 5 MiB come back afterwards, then the end`,
  run: (ends) =>
    withPeers(ends, async (host, app) => {
      const [asker, answerer] = side === "host" ? [host, app] : [app, host];
      await asker.send(Buffer.from("a question"), answerer);
      libc.shutdown(asker.fd, SHUT_WR);
      await answerer.expectAllThenEnd();
      await sleep(50);
      await answerer.send(pattern(5 * 1024 * 1024, 9), asker);
      libc.shutdown(answerer.fd, SHUT_WR);
      await asker.expectAllThenEnd();
    }),
}));

const fullCloses: Scenario[] = (["host", "app"] as const).flatMap((side) => [
  {
    name: `the ${side} writes and closes at once: everything arrives, then the end`,
    run: (ends: Ends) =>
      withPeers(ends, async (host, app) => {
        const [closer, other] = side === "host" ? [host, app] : [app, host];
        await closer.send(pattern(300_000, 10), other);
        closeFully(closer);
        await other.expectAllThenEnd();
      }),
  },
  {
    name: `the ${side} writes and closes with unread bytes before it: everything arrives, and the connection is over`,
    run: (ends: Ends) =>
      withPeers(ends, async (host, app) => {
        const [closer, other] = side === "host" ? [host, app] : [app, host];
        await other.send(pattern(150_000, 11), closer);
        await sleep(20);
        await closer.send(pattern(300_000, 12), other);
        closeFully(closer);
        await other.expectBytes();
        await other.expectOver();
      }),
  },
  {
    name: `the ${side} ends its writing, and later goes altogether: the other end learns both`,
    run: (ends: Ends) =>
      withPeers(ends, async (host, app) => {
        const [closer, other] = side === "host" ? [host, app] : [app, host];
        libc.shutdown(closer.fd, SHUT_WR);
        await other.expectAllThenEnd();
        await other.send(pattern(1000, 13), closer);
        await closer.expectBytes();
        closeFully(closer);
        const deadline = Date.now() + patienceMs;
        for (;;) {
          if (Date.now() > deadline) throw new Error(`${other.name} can still write`);
          try {
            writeFd(other.fd, Buffer.from("x"), 0);
          } catch {
            return;
          }
          await sleep(2);
        }
      }),
  },
]);

const orders: Scenario[] = permutations(steps).map((order) => ({
  name: `closed in this order: ${order.join(", ")}`,
  run: (ends) =>
    withPeers(ends, async (host, app) => {
      for (const step of order) await takeStep(step, host, app);
    }),
}));

export const closeScenarios: readonly Scenario[] = [...answerAfterEnd, ...fullCloses, ...orders];

export function sleep(milliseconds: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, milliseconds));
}

/**
 * The four figures by which the bridge is measured, against an app with an `echo`, a `blob(n)` and a `burst(n)` handler
 * (examples/bench): rounds after a warm-up, of which the median counts.
 */
import type { AppSession } from "./session.ts";

export interface BridgeFigures {
  /** one call after the other: microseconds each */
  readonly callMicroseconds: number;
  /** a thousand calls at once: calls a second */
  readonly callsPerSecond: number;
  /** replies of 8 MiB: MiB a second */
  readonly replyMebibytesPerSecond: number;
  /** events that the core pushes: messages a second */
  readonly eventsPerSecond: number;
}

export interface MeasureOptions {
  /** 5 when absent */
  rounds?: number;
  /** share of the full work in each round; 1 when absent */
  scale?: number;
}

const sequentialCalls = 1000;
const concurrentCalls = 1000;
const blobBytes = 8 * 1024 * 1024;
const blobs = 4;
const events = 20_000;

export async function measureBridge(
  session: AppSession,
  { rounds = 5, scale = 1 }: MeasureOptions = {},
): Promise<BridgeFigures> {
  const times = (count: number) => Math.max(1, Math.round(count * scale));
  return {
    callMicroseconds: await median(rounds, async () => {
      const count = times(sequentialCalls);
      const seconds = await secondsOf(async () => {
        for (let call = 0; call < count; call += 1) await session.invoke("echo", call);
      });
      return (seconds * 1e6) / count;
    }),
    callsPerSecond: await median(rounds, async () => {
      const seconds = await secondsOf(() =>
        Promise.all(Array.from({ length: concurrentCalls }, (_, call) => session.invoke("echo", call))),
      );
      return concurrentCalls / seconds;
    }),
    replyMebibytesPerSecond: await median(rounds, async () => {
      const count = times(blobs);
      const seconds = await secondsOf(async () => {
        for (let reply = 0; reply < count; reply += 1) await session.invoke("blob", blobBytes);
      });
      return (count * blobBytes) / 1024 / 1024 / seconds;
    }),
    eventsPerSecond: await median(rounds, async () => {
      const count = times(events);
      return count / (await secondsOf(() => receiveBurst(session, count)));
    }),
  };
}

/** Resolves when the last event has arrived. Throws when fewer came than the core says it has sent. */
async function receiveBurst(session: AppSession, count: number): Promise<void> {
  let seen = 0;
  const onEmit = () => {
    seen += 1;
  };
  session.on("emit", onEmit);
  try {
    await session.invoke("burst", count);
  } finally {
    session.off("emit", onEmit);
  }
  if (seen !== count) throw new Error(`${seen} events arrived instead of ${count}`);
}

async function secondsOf(work: () => Promise<unknown>): Promise<number> {
  const started = performance.now();
  await work();
  return (performance.now() - started) / 1000;
}

async function median(rounds: number, measure: () => Promise<number>): Promise<number> {
  await measure();
  const found: number[] = [];
  for (let round = 0; round < rounds; round += 1) found.push(await measure());
  found.sort((a, b) => a - b);
  return found[found.length >> 1] as number;
}

import { expect } from "bun:test";
import type { Daemon } from "./daemon.ts";
import type { RawPeer } from "./raw-peer.ts";

/** The invariant behind every negative test: this connection is in step. */
export async function answersPing(peer: RawPeer): Promise<void> {
  expect(await peer.ask({ v: 1, t: "ping", id: "last" })).toEqual({ v: 1, t: "pong", id: "last" });
}

/** A connection that was given up is closed, and the daemon serves the next one. */
export async function closedAndServing(peer: RawPeer, daemon: Daemon): Promise<void> {
  expect(await peer.endsWithin(5_000)).toBe(true);
  const next = await daemon.greeted();
  await answersPing(next);
  next.close();
}

/** The shell service (vsock 1027): reads the first frame of a connection and starts its session. */

import { decodeStart, StartError } from "#protocol/shell/decode-start.ts";
import { frameType, type RawFrame, RawFrameDecoder, ShellFrameError } from "#protocol/shell/frames.ts";
import { type ResolvedStart, shellCaps } from "#protocol/shell/start.ts";
import type { Log } from "#sys/log.ts";
import type { Peer, Service } from "../service.ts";
import type { Refusal } from "./command.ts";
import { ClientLink } from "./link.ts";
import { NamedSessions, type SessionInfo } from "./named-sessions.ts";
import { refuse, runSession } from "./session.ts";

export interface ShellService extends Service {
  /** the named sessions, also those that ended within the last minutes */
  sessions(): SessionInfo[];
}

export function createShellService({ log }: { log: Log }): ShellService {
  const named = new NamedSessions(log);
  return {
    name: "shell",
    caps: Object.values(shellCaps),
    serve: (peer) => awaitStart({ peer, named, log }),
    sessions: () => named.list(),
  };
}

/** "The connection fails before a full first frame, or the first frame is over 1 MiB": closed without a word. */
function awaitStart({ peer, named, log }: { peer: Peer; named: NamedSessions; log: Log }): void {
  const { socket } = peer;
  const decoder = new RawFrameDecoder();
  const giveUp = () => socket.destroy();
  const read = (chunk: Uint8Array): void => {
    let first: RawFrame | undefined;
    decoder.push(chunk);
    try {
      first = decoder.next();
    } catch (error) {
      if (!(error instanceof ShellFrameError)) throw error;
      log.warn("connection closed", { reason: error.message });
      giveUp();
      return;
    }
    if (first === undefined) return;
    socket.pause();
    socket.off("data", read);
    socket.off("end", giveUp);
    peer.spoke();
    begin({ peer, first, decoder, named, log });
  };
  socket.on("data", read);
  socket.on("end", giveUp);
  socket.resume();
}

function begin({
  peer,
  first,
  decoder,
  named,
  log,
}: {
  peer: Peer;
  first: RawFrame;
  decoder: RawFrameDecoder;
  named: NamedSessions;
  log: Log;
}): void {
  const refuseWith = (refusal: Refusal) => refuse(new ClientLink(peer.socket), refusal);
  if (first.type !== frameType.start) {
    refuseWith({ kind: "error", message: "protocol error: first frame must be start" });
    return;
  }
  let start: ResolvedStart;
  try {
    start = decodeStart(first.payload);
  } catch (error) {
    if (!(error instanceof StartError)) throw error;
    refuseWith({ kind: "error", message: `protocol error: ${error.message}` });
    return;
  }
  if (start.session === undefined) {
    runSession({ peer, start, decoder, log });
    return;
  }
  const refusal = named.open({ name: start.session, peer, start, decoder });
  if (refusal !== undefined) refuseWith(refusal);
}

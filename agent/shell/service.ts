/** The shell service (vsock 1027): reads the first frame of a connection and starts its session. */
import { frameType, type RawFrame, RawFrameDecoder, ShellFrameError } from "#protocol/shell/frames.ts";
import { decodeStart, type ResolvedStart, StartError, shellCaps } from "#protocol/shell/start.ts";
import type { Log } from "#sys/log.ts";
import type { Peer, Service } from "../service.ts";
import { ClientLink } from "./link.ts";
import { runSession } from "./session.ts";

export function createShellService({ log }: { log: Log }): Service {
  return {
    name: "shell",
    caps: [shellCaps.env, shellCaps.cwd, shellCaps.user],
    serve: (peer) => awaitStart({ peer, log }),
  };
}

/** "The connection fails before a full first frame, or the first frame is over 1 MiB": closed without a word. */
function awaitStart({ peer, log }: { peer: Peer; log: Log }): void {
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
    begin({ peer, first, decoder, log });
  };
  socket.on("data", read);
  socket.on("end", giveUp);
  socket.resume();
}

function begin({
  peer,
  first,
  decoder,
  log,
}: {
  peer: Peer;
  first: RawFrame;
  decoder: RawFrameDecoder;
  log: Log;
}): void {
  const refuse = (message: string) => new ClientLink(peer.socket).finish({ type: "error", message });
  if (first.type !== frameType.start) {
    refuse("protocol error: first frame must be start");
    return;
  }
  let start: ResolvedStart;
  try {
    start = decodeStart(first.payload);
  } catch (error) {
    if (!(error instanceof StartError)) throw error;
    refuse(`protocol error: ${error.message}`);
    return;
  }
  runSession({ peer, start, decoder, log });
}

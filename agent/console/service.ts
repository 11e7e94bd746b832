/** The console of the agent, on its port: a session a connection. */
import type { Log } from "#sys/log.ts";
import type { Peer, Service } from "../service.ts";
import { Channel } from "./channel.ts";
import { guestPlace, isGuest } from "./guest-place.ts";
import { hostPlace } from "./host-place.ts";
import type { Place } from "./place.ts";
import { serveConsole } from "./server.ts";
import { Session } from "./session.ts";

/** Where sessions of this process live: in a guest of ours, or on the machine that it was started on. */
export function placeHere(): Place {
  return isGuest() ? guestPlace : hostPlace;
}

export function createConsoleService({ log }: { log: Log }): Service {
  const place = placeHere();
  return {
    name: "console",
    caps: place === guestPlace ? ["console", "console.snapshot"] : ["console"],
    serve: (peer) => void serve({ peer, place, log }),
  };
}

async function serve({ peer: { socket, spoke }, place, log }: { peer: Peer; place: Place; log: Log }): Promise<void> {
  const session = new Session(place);
  const channel = Channel.overSocket(socket, () => session.interrupt());
  spokeWhenBusy({ socket, spoke });
  await serveConsole({ channel, session, log, onSpoke: spoke });
  // Destroying in the callback: what is queued goes out first, and some transports pass no half-close on.
  socket.end(() => socket.destroy());
}

/** so many bytes of a first message show that the peer is not idle */
const busyBytes = 1024 * 1024;

/** A first message may be a snapshot, which takes longer to arrive than an idle peer is kept. */
function spokeWhenBusy({ socket, spoke }: Peer): void {
  let received = 0;
  const count = (chunk: Uint8Array): void => {
    received += chunk.length;
    if (received < busyBytes) return;
    socket.off("data", count);
    spoke();
  };
  socket.on("data", count);
}

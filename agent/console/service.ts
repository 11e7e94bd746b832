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
  await serveConsole({ channel, session, log, onSpoke: spoke });
  // Destroying in the callback: what is queued goes out first, and some transports pass no half-close on.
  socket.end(() => socket.destroy());
}

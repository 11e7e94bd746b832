import type { Socket } from "node:net";
import type { ServiceName } from "#protocol/ports.ts";

/** One accepted connection of a service. The service owns the socket from here on. */
export interface Peer {
  /** paused and half-open capable: nothing is lost before the service attaches its readers */
  readonly socket: Socket;
  /** Called once the peer has sent a whole first message; until then the listener drops it after its deadline. */
  spoke(): void;
}

/** A service of the agent: one port, any number of connections at once. */
export interface Service {
  readonly name: ServiceName;
  /** what the control hello's caps say of this service, e.g. `shell.env` */
  readonly caps: readonly string[];
  serve(peer: Peer): void;
}

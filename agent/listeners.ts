import type { Server } from "node:net";
import type { Service } from "./service.ts";

/** how long a port may still be held by the agent before this one */
const portWaitMs = 4_000;
const retryMs = 50;

/** Retries while the port is taken: after an update the former agent gives it up at about the time that this one starts. */
export async function untilPortIsFree(attempt: () => Promise<Server>): Promise<Server> {
  const deadline = performance.now() + portWaitMs;
  for (;;) {
    try {
      return await attempt();
    } catch (error) {
      if (Reflect.get(Object(error), "code") !== "EADDRINUSE" || performance.now() > deadline) throw error;
    }
    await Bun.sleep(retryMs);
  }
}

/** What listens for the agent's services, to be closed once. */
export class Listeners {
  readonly #servers = new Map<Service, { readonly server: Server; over: Promise<void> | undefined }>();

  add(service: Service, server: Server): void {
    this.#servers.set(service, { server, over: undefined });
  }

  /** Takes no further connections of a service. Resolves when those that it has are over. */
  close(service: Service): Promise<void> {
    const entry = this.#servers.get(service);
    if (entry === undefined) return Promise.resolve();
    entry.over ??= new Promise((resolve) => entry.server.close(() => resolve()));
    return entry.over;
  }

  /** The same for every service. */
  async closeAll(): Promise<void> {
    await Promise.all([...this.#servers.keys()].map((service) => this.close(service)));
  }
}

/**
 * Listens for one service, on vsock in a guest and on a Unix socket elsewhere. Only the host (CID 2) is served over vsock;
 * a peer that sends no whole first message is dropped after {@link firstMessageMs}; the number of connections is bounded.
 */
import { chmodSync, mkdirSync, rmSync } from "node:fs";
import { createServer, type Server, type Socket } from "node:net";
import { join } from "node:path";
import { hostCid, ports, unixSocketName } from "#protocol/ports.ts";
import type { Log } from "#sys/log.ts";
import { listenVsock, peerCid } from "#sys/vsock.ts";
import { descriptorOf } from "./descriptor.ts";
import type { Service } from "./service.ts";

/** `vsock`, or a directory that gets one Unix socket a port. */
export type ListenTarget = { readonly kind: "vsock" } | { readonly kind: "unix"; readonly directory: string };

const backlog = 128;
const maxConnections = 1024;
const firstMessageMs = 10_000;

/** Parses `vsock` or `unix:DIR`. Throws a RangeError that names what was given. */
export function parseListenTarget(text: string): ListenTarget {
  if (text === "vsock") return { kind: "vsock" };
  if (text.startsWith("unix:") && text.length > "unix:".length)
    return { kind: "unix", directory: text.slice("unix:".length) };
  throw new RangeError(`cannot listen on ${JSON.stringify(text)}: expected "vsock" or "unix:DIR"`);
}

/** Starts to listen; resolves once connections are accepted. Rejects when the port or path cannot be taken. */
export function listen({
  service,
  target,
  log,
}: {
  service: Service;
  target: ListenTarget;
  log: Log;
}): Promise<Server> {
  const server = createServer({ allowHalfOpen: true, pauseOnConnect: true }, (socket) =>
    accept({ service, target, log, socket }),
  );
  server.maxConnections = maxConnections;
  const port = ports[service.name];
  return new Promise((resolve, reject) => {
    server.once("error", reject);
    server.once("listening", () => {
      server.off("error", reject);
      server.on("error", (error) => log.error("listener failed", { service: service.name, error: error.message }));
      resolve(server);
    });
    if (target.kind === "vsock") {
      server.listen({ fd: listenVsock({ port, backlog }) });
    } else {
      mkdirSync(target.directory, { recursive: true, mode: 0o700 });
      const path = join(target.directory, unixSocketName(port));
      rmSync(path, { force: true });
      server.listen({ path, backlog }, () => chmodSync(path, 0o600));
    }
  });
}

function accept({
  service,
  target,
  log,
  socket,
}: {
  service: Service;
  target: ListenTarget;
  log: Log;
  socket: Socket;
}): void {
  socket.on("error", () => socket.destroy());
  if (target.kind === "vsock") {
    const refused = refusal(socket);
    if (refused !== undefined) {
      log.warn("peer refused", { service: service.name, reason: refused });
      socket.destroy();
      return;
    }
  }
  const deadline = setTimeout(() => {
    log.warn("peer said nothing and was dropped", { service: service.name });
    socket.destroy();
  }, firstMessageMs);
  deadline.unref();
  socket.once("close", () => clearTimeout(deadline));
  try {
    service.serve({ socket, spoke: () => clearTimeout(deadline) });
  } catch (error) {
    log.error("service failed on a new connection", { service: service.name, error: String(error) });
    socket.destroy();
  }
}

/** Why a vsock peer may not be served, or undefined for the host. */
function refusal(socket: Socket): string | undefined {
  const fd = descriptorOf(socket);
  if (fd === undefined) return "its descriptor is not known";
  try {
    const cid = peerCid(fd);
    return cid === hostCid ? undefined : `CID ${cid} is not the host`;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

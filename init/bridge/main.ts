/** `vmapp-init bridge`: where to listen, for whom, and where the app is. */
import { chmodSync, mkdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { hostCid, ports, unixSocketName } from "#protocol/ports.ts";
import { setNonBlocking } from "#sys/fd.ts";
import { createLog } from "#sys/log.ts";
import { listenUnix } from "#sys/stream-socket.ts";
import { listenVsock, peerCid } from "#sys/vsock.ts";
import { type BridgeArguments, defaultAppSocket, parseBridgeArguments } from "./arguments.ts";
import { Forwarder } from "./forwarder.ts";

/** A Unix socket refuses at once when its queue is full, so there is room for every connection that could be open. */
const backlog = 512;

/** Runs the forwarder until the process is ended. Throws when the arguments are bad or the port is taken. */
export function runBridge(args: readonly string[]): never {
  const { listen, appSocket } = parseBridgeArguments(args, process.env.VMAPP_SOCKET ?? defaultAppSocket);
  const log = createLog("vmapp-bridge");
  const listenerFd = openListener(listen);
  log.info("listening", { port: ports.bridge, app: appSocket });
  return new Forwarder({
    listenerFd,
    appSocket,
    toHost: listen.kind === "vsock" ? "copy" : "splice",
    refusal: listen.kind === "vsock" ? refusalUnlessHost : () => undefined,
    log,
  }).run();
}

function openListener(listen: BridgeArguments["listen"]): number {
  if (listen.kind === "vsock") {
    const fd = listenVsock({ port: ports.bridge, backlog });
    setNonBlocking(fd);
    return fd;
  }
  mkdirSync(listen.directory, { recursive: true, mode: 0o700 });
  const path = join(listen.directory, unixSocketName(ports.bridge));
  rmSync(path, { force: true });
  const fd = listenUnix({ path, backlog });
  chmodSync(path, 0o600);
  return fd;
}

/** Only the host is served: a program of the guest, over the vsock loopback, is not. */
function refusalUnlessHost(fd: number): string | undefined {
  try {
    const cid = peerCid(fd);
    return cid === hostCid ? undefined : `CID ${cid} is not the host`;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

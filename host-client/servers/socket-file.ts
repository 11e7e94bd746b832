/** A Unix socket that this process serves: taken without pushing anybody aside, private from its first moment, removed at the end. */
import { lstatSync, rmSync } from "node:fs";
import { createConnection, type Server } from "node:net";
import { maxSocketPathBytes } from "../transport/target.ts";

/**
 * - `too_long`: the path does not fit a socket's address
 * - `occupied`: something that is no socket is there
 * - `in_use`: another process serves it
 * - `failed`: the system refused; see the cause
 */
export type SocketFileErrorCode = "too_long" | "occupied" | "in_use" | "failed";

/** The message names the path. */
export class SocketFileError extends Error {
  override readonly name = "SocketFileError";

  constructor(
    readonly code: SocketFileErrorCode,
    message: string,
    options?: ErrorOptions,
  ) {
    super(message, options);
  }
}

const backlog = 128;
/** keeps group and others out; what is bound under it has mode 0600 */
const privateUmask = 0o177;

/**
 * Makes `server` listen at `path` with mode 0600. A socket that nobody serves any more is replaced. Resolves with what removes
 * the file again, unless somebody else has put theirs there. Throws {@link SocketFileError}.
 */
export async function listenOnSocketFile(server: Server, path: string): Promise<() => void> {
  const bytes = Buffer.byteLength(path);
  if (bytes > maxSocketPathBytes) {
    throw new SocketFileError("too_long", `${path} has ${bytes} bytes, a socket's path at most ${maxSocketPathBytes}`);
  }
  await removeStale(path);
  await listen(server, path);
  const own = lstatSync(path).ino;
  return () => {
    if (lstatSync(path, { throwIfNoEntry: false })?.ino === own) rmSync(path, { force: true });
  };
}

async function removeStale(path: string): Promise<void> {
  const found = lstatSync(path, { throwIfNoEntry: false });
  if (found === undefined) return;
  if (!found.isSocket()) throw new SocketFileError("occupied", `will not replace ${path}: it is not a socket`);
  if (await isServed(path)) throw new SocketFileError("in_use", `another process serves ${path}`);
  rmSync(path, { force: true });
}

function isServed(path: string): Promise<boolean> {
  return new Promise((resolve, reject) => {
    const socket = createConnection(path);
    socket.once("connect", () => {
      socket.destroy();
      resolve(true);
    });
    socket.once("error", (cause: NodeJS.ErrnoException) => {
      if (cause.code === "ECONNREFUSED" || cause.code === "ENOENT") resolve(false);
      // Accepted and dropped at once, or too busy to accept: somebody is there.
      else if (cause.code === "ECONNRESET" || cause.code === "EAGAIN") resolve(true);
      else reject(new SocketFileError("failed", `cannot tell who serves ${path}: ${cause.message}`, { cause }));
    });
  });
}

function listen(server: Server, path: string): Promise<void> {
  return new Promise((resolve, reject) => {
    const former = process.umask(privateUmask);
    const settle = (): void => {
      process.umask(former);
      server.off("error", onError);
    };
    const onError = (cause: Error): void => {
      settle();
      reject(new SocketFileError("failed", `cannot serve ${path}: ${cause.message}`, { cause }));
    };
    server.once("error", onError);
    server.listen({ path, backlog }, () => {
      settle();
      resolve();
    });
  });
}

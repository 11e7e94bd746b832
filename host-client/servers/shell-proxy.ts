/**
 * Serves a guest's shell port at a Unix socket of the host, byte for byte, for clients that speak the shell protocol themselves
 * ("Transport": the daemon's `shell.sock`). It does not parse frames.
 */
import { createServer, type Server, type Socket } from "node:net";
import { ports } from "#protocol/ports.ts";
import type { Guest } from "../guest.ts";
import { listenOnSocketFile } from "./socket-file.ts";

/** as many as the guest's agent serves */
const maxConnections = 1024;

export interface ShellProxyOptions {
  readonly guest: Guest;
  /** where the socket is made, mode 0600 */
  readonly path: string;
  /** a client could not be served; it sees its connection closed */
  readonly onProblem: (error: unknown) => void;
}

/** A proxy that serves. Each connection of a client is one to the guest; half-closes pass where the transport has them. */
export class ShellProxy implements AsyncDisposable {
  readonly #guest: Guest;
  readonly #onProblem: (error: unknown) => void;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  readonly #closing = new AbortController();
  #removeFile: () => void = () => {};

  private constructor({ guest, onProblem }: ShellProxyOptions) {
    this.#guest = guest;
    this.#onProblem = onProblem;
    this.#server = createServer({ allowHalfOpen: true, pauseOnConnect: true }, (client) => void this.#serve(client));
    this.#server.maxConnections = maxConnections;
  }

  /** Resolves once connections are accepted. Throws `SocketFileError`. */
  static async start(options: ShellProxyOptions): Promise<ShellProxy> {
    const proxy = new ShellProxy(options);
    proxy.#removeFile = await listenOnSocketFile(proxy.#server, options.path);
    proxy.#server.on("error", options.onProblem);
    return proxy;
  }

  /** Ends every connection and removes the socket. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#closing.abort();
    this.#removeFile();
    const closed = new Promise((resolve) => this.#server.close(resolve));
    for (const socket of this.#sockets) socket.destroy();
    await closed;
  }

  async #serve(client: Socket): Promise<void> {
    this.#own(client);
    const gone = new AbortController();
    client.once("close", () => gone.abort());
    try {
      const signal = AbortSignal.any([gone.signal, this.#closing.signal]);
      const { socket } = await this.#guest.dial(ports.shell, { signal });
      this.#own(socket);
      join(client, socket);
      join(socket, client);
    } catch (error) {
      client.destroy();
      if (!gone.signal.aborted && !this.#closing.signal.aborted) this.#onProblem(error);
    }
  }

  #own(socket: Socket): void {
    this.#sockets.add(socket);
    // Followed by `close`, which is what is acted on.
    socket.on("error", () => {});
    socket.once("close", () => this.#sockets.delete(socket));
  }
}

/** Copies one direction. Its end passes behind the last byte; a connection that breaks takes the other one with it. */
function join(from: Socket, to: Socket): void {
  from.pipe(to);
  from.once("close", () => {
    if (!to.writableEnded) to.destroy();
  });
  to.once("close", () => {
    if (!from.readableEnded) from.destroy();
  });
}

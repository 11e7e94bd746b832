import type { Socket } from "node:net";

/**
 * A connected stream to one port of a guest. The socket is handed over paused and half-open (`allowHalfOpen`): the
 * holder reads with `resume()` and `data`, with `pipe`, or as an async iterator (which destroys the socket when it is
 * done), and it ends the socket itself.
 */
export interface Connection {
  readonly socket: Socket;
  /**
   * True where `socket.end()` closes only our direction (AF_VSOCK, Unix sockets). False on the hybrid transport, where
   * it tears down both, and where the peer's half-close never arrives.
   */
  readonly halfClose: boolean;
  /** Sends the last bytes, if any, and closes the connection once they are handed over. Nothing more is read. */
  finish(lastBytes?: Uint8Array): Promise<void>;
}

export function connectionOver(socket: Socket, halfClose: boolean): Connection {
  return { socket, halfClose, finish: (lastBytes) => finish(socket, lastBytes) };
}

function finish(socket: Socket, lastBytes: Uint8Array | undefined): Promise<void> {
  return new Promise((resolve) => {
    if (socket.destroyed) {
      resolve();
      return;
    }
    socket.once("close", () => resolve());
    const destroy = () => socket.destroy();
    socket.once("error", destroy);
    // Destroying in the callback, not after end(): what was queued before it is written first.
    if (lastBytes === undefined) socket.end(destroy);
    else socket.end(lastBytes, destroy);
  });
}

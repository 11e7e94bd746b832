import type { Socket } from "node:net";

/** how long the other end may take to notice, in milliseconds; it was seen to take less than one */
const noticeMs = 50;

/**
 * Closes a connection whose other end has more to say. vhost-device-vsock, which stands between, does not notice that a peer
 * is gone while it has output for it; the guest would never learn, and the command would run on. What it does notice is the
 * end of our side. So that comes first, and a moment before the rest.
 */
export function giveUp(socket: Socket): void {
  if (socket.destroyed) return;
  socket.end();
  const timer = setTimeout(() => socket.destroy(), noticeMs);
  socket.once("close", () => clearTimeout(timer));
}

import type { Socket } from "node:net";

/** The file descriptor under a node:net socket, or undefined once it has none. */
export function descriptorOf(socket: Socket): number | undefined {
  const handle: unknown = Reflect.get(socket, "_handle");
  const fd: unknown = typeof handle === "object" && handle !== null ? Reflect.get(handle, "fd") : undefined;
  return typeof fd === "number" && fd >= 0 ? fd : undefined;
}

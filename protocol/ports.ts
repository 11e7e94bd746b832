/** The vsock ports of the guest's services, and the names of their Unix sockets on a `unix:DIR` target. */
export const ports = {
  bridge: 1024,
  shell: 1027,
  console: 1028,
  forward: 1029,
  control: 1337,
} as const;

export type ServiceName = keyof typeof ports;

/** vsock CID of the host, seen from the guest. */
export const hostCid = 2;

/** File name of a port's socket inside the directory of a `unix:DIR` target, e.g. `1027.sock`. */
export function unixSocketName(port: number): string {
  return `${port}.sock`;
}

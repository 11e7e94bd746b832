/** A port as `init` spells it, host first: `"8080:80"` (given/console.md, "The network"). */
import { MemberError } from "./members.ts";

export interface PortMapping {
  /** TCP port on the loopback of the server's machine, 1 to 65535 */
  readonly host: number;
  /** TCP port inside the session, 1 to 65535 */
  readonly guest: number;
}

/** Reads one port. Throws {@link MemberError} with the whole string. */
export function parsePort(text: string): PortMapping {
  const parts = /^(\d{1,5}):(\d{1,5})$/.exec(text);
  const [host, guest] = [Number(parts?.[1]), Number(parts?.[2])];
  for (const port of [host, guest]) {
    if (!(port >= 1 && port <= 65535)) {
      throw new MemberError(`a port is "<host port>:<session port>", each 1 to 65535: ${JSON.stringify(text)}`);
    }
  }
  return { host, guest };
}

export function formatPort({ host, guest }: PortMapping): string {
  return `${host}:${guest}`;
}

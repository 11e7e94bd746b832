/** Options of `vmapp-init bridge`. */
import { parseArgs } from "node:util";

/** where the app core listens unless it is told otherwise */
export const defaultAppSocket = "/run/vmapp/app.sock";

export interface BridgeArguments {
  readonly listen: { readonly kind: "vsock" } | { readonly kind: "unix"; readonly directory: string };
  /** path of the app's socket */
  readonly appSocket: string;
}

/** Parses `[--listen vsock|unix:DIR] [--socket PATH]`. Throws an Error that names what was given. */
export function parseBridgeArguments(args: readonly string[], appSocket: string): BridgeArguments {
  const { values } = parseArgs({
    args: [...args],
    options: { listen: { type: "string", default: "vsock" }, socket: { type: "string", default: appSocket } },
  });
  return { listen: parseListen(values.listen), appSocket: values.socket };
}

function parseListen(text: string): BridgeArguments["listen"] {
  if (text === "vsock") return { kind: "vsock" };
  if (text.startsWith("unix:") && text.length > "unix:".length)
    return { kind: "unix", directory: text.slice("unix:".length) };
  throw new RangeError(`cannot listen on ${JSON.stringify(text)}: expected "vsock" or "unix:DIR"`);
}

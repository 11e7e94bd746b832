import type { HelloReply } from "#protocol/control/replies.ts";
import { ports } from "#protocol/ports.ts";
import type { ShellStart } from "#protocol/shell/start.ts";
import { ControlError } from "./clients/control/error.ts";
import { requireCaps } from "./clients/shell/capabilities.ts";
import { ShellError } from "./clients/shell/error.ts";
import { watchLiveness } from "./clients/shell/liveness.ts";
import { openShell, type ShellSession } from "./clients/shell/session.ts";
import type { GuestOrigin } from "./locate-guest.ts";
import type { Connection } from "./transport/connection.ts";
import { type DialOptions, dial } from "./transport/dial.ts";
import { TransportError } from "./transport/error.ts";
import { type Address, formatTarget, parseTarget } from "./transport/target.ts";
import { quoteConsole } from "./vm/console-log.ts";
import { VmError } from "./vm/error.ts";

/**
 * The connections to a guest, and its shell. Apart from the rest of a guest because the command line starts with it: loading
 * code is most of what a short command costs, so what only some calls need is loaded by them.
 */
export class GuestLink {
  /** As `Guest.connect`. What knows the VMs of this host is loaded for the NAME of one only. */
  static async to(text: string): Promise<GuestLink> {
    const target = parseTarget(text);
    if (target.kind !== "name") return new GuestLink(target, undefined);
    const { locateGuest } = await import("./locate-guest.ts");
    return new GuestLink(...locateGuest(text));
  }

  constructor(
    /** where its ports are dialled */
    readonly target: Address,
    private readonly origin: GuestOrigin | undefined,
  ) {}

  /** name of the VM, or the target as text */
  get name(): string {
    return this.origin?.name ?? formatTarget(this.target);
  }

  /**
   * Connects to a port of the guest. Throws {@link TransportError}; for a VM of this host {@link VmError}
   * `unreachable`, which quotes the end of the guest's console.
   */
  async dial(port: number, limits: Pick<DialOptions, "timeoutMs" | "signal"> = {}): Promise<Connection> {
    try {
      return await dial({ target: this.target, port, ...limits });
    } catch (error) {
      throw this.explain(error);
    }
  }

  /** What the guest says of itself, asked anew each time. Throws as {@link dial} does, and `ControlError`. */
  async hello(limits: Pick<DialOptions, "timeoutMs" | "signal"> = {}): Promise<HelloReply> {
    const { probeHello } = await import("./clients/control/one-shot.ts");
    try {
      return await probeHello({ target: this.target, ...limits });
    } catch (error) {
      throw this.explain(error);
    }
  }

  /**
   * Starts a command or a login shell and hands over its streams. Throws as {@link dial} does; what goes wrong later
   * rejects the session's `exit`. Extensions of the contract (`env`, `cwd`, `user`, `session`) are refused with
   * {@link ShellError} when the guest's agent does not have them.
   */
  async shell(start: ShellStart = {}, limits: Pick<DialOptions, "timeoutMs" | "signal"> = {}): Promise<ShellSession> {
    await requireCaps({ start, guest: this.name, askCaps: async () => (await this.hello(limits)).caps });
    const connection = await this.dial(ports.shell, limits);
    const session = openShell({ connection, start });
    watchLiveness({ session, bytesReceived: () => connection.socket.bytesRead, target: this.target });
    return session;
  }

  /**
   * Adds the end of the console to an error that may come from a crash of the guest, which else would look like a
   * timeout or a lost connection. Other errors, and those of guests whose console is not at hand, come back as they are.
   */
  explain(error: unknown): unknown {
    if (this.origin === undefined || !mayComeFromCrash(error)) return error;
    const { name } = this.origin;
    const message = quoteConsole(`${name}: ${error.message}`, this.origin.consoleTail(), name);
    return new VmError("unreachable", message, error);
  }
}

function mayComeFromCrash(error: unknown): error is Error {
  if (error instanceof TransportError) return error.code !== "aborted" && error.code !== "unsupported";
  if (error instanceof ShellError) return error.code === "closed" || error.code === "unresponsive";
  return error instanceof ControlError && (error.code === "closed" || error.code === "timeout");
}

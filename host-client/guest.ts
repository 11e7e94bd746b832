import { ports } from "#protocol/ports.ts";
import type { AppOptions, AppSession } from "./clients/bridge/session.ts";
import { collect, type ExecOptions, type ExecResult } from "./exec.ts";
import { GuestFiles } from "./files.ts";
import { GuestLink } from "./guest-link.ts";
import { type GuestOrigin, locateGuest } from "./locate-guest.ts";
import type { Address } from "./transport/target.ts";

/**
 * A guest that can be reached. Holds no connection of its own: each operation dials what it needs, so a guest that
 * reboots is reached again.
 */
export class Guest extends GuestLink {
  #files: GuestFiles | undefined;

  /** The guest at `NAME`, `vsock:CID`, `hybrid:/path` or `unix:/dir`. Throws as {@link locateGuest} does. */
  static connect(target: string): Guest {
    return new Guest(...locateGuest(target));
  }

  static at(target: Address, origin?: GuestOrigin): Guest {
    return new Guest(target, origin);
  }

  /** The guest's files. Dispose of it to close its idle connections; they keep no process alive. */
  get files(): GuestFiles {
    this.#files ??= new GuestFiles(() => this.dial(ports.control), this.name);
    return this.#files;
  }

  /**
   * Runs a command and collects its output. Throws as {@link shell} does, and `ExecError` for a command that was hung
   * up. A command that fails is a result, not an error.
   */
  async exec(argv: readonly string[], options: ExecOptions = {}): Promise<ExecResult> {
    const { env, cwd, user, signal } = options;
    const start = { argv, ...(env && { env }), ...(cwd !== undefined && { cwd }), ...(user !== undefined && { user }) };
    const session = await this.shell(start, signal && { signal });
    try {
      return await collect(session, argv[0] ?? "the login shell", options);
    } catch (error) {
      throw this.explain(error);
    }
  }

  /**
   * Connects to the app's core, the host end of the bridge, and waits for it to be ready. Throws `BridgeError`
   * `not_ready`, with the last failure as its cause.
   */
  async app(options: AppOptions = {}): Promise<AppSession> {
    const { AppSession } = await import("./clients/bridge/session.ts");
    return AppSession.open((signal) => this.dial(ports.bridge, { signal }), options);
  }
}

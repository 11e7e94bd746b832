import type { HelloReply } from "#protocol/control/replies.ts";
import { ports } from "#protocol/ports.ts";
import type { ShellStart } from "#protocol/shell/start.ts";
import type { AppOptions, AppSession } from "./clients/bridge/session.ts";
import { ControlError } from "./clients/control/error.ts";
import { probeHello } from "./clients/control/one-shot.ts";
import { requireCaps } from "./clients/shell/capabilities.ts";
import { ShellError } from "./clients/shell/error.ts";
import { watchLiveness } from "./clients/shell/liveness.ts";
import { openShell, type ShellSession } from "./clients/shell/session.ts";
import { collect, type ExecOptions, type ExecResult } from "./exec.ts";
import { GuestFiles } from "./files.ts";
import type { Connection } from "./transport/connection.ts";
import { type DialOptions, dial } from "./transport/dial.ts";
import { TransportError } from "./transport/error.ts";
import { type Address, formatTarget } from "./transport/target.ts";
import { quoteConsole, readConsoleTail } from "./vm/console-log.ts";
import { VmError } from "./vm/error.ts";
import { consoleLogPath, resolveTarget } from "./vm/resolve.ts";

/** What is known of the VM around a guest, when it is one of this host's. */
export interface GuestOrigin {
  name: string;
  /** the last lines of its console, for errors */
  consoleTail(): string[];
}

/**
 * A guest that can be reached. Holds no connection of its own: each operation dials what it needs, so a guest that
 * reboots is reached again.
 */
export class Guest {
  #files: GuestFiles | undefined;

  private constructor(
    /** where its ports are dialled */
    readonly target: Address,
    private readonly origin: GuestOrigin | undefined,
  ) {}

  /**
   * The guest at `NAME`, `vsock:CID`, `hybrid:/path` or `unix:/dir`. Throws `TransportError` `bad_target` or
   * {@link VmError} `no_such_vm`, `not_running`. Nothing is dialled yet.
   */
  static connect(target: string): Guest {
    const { address, vm } = resolveTarget(target);
    const origin =
      vm === undefined ? undefined : { name: vm.record.name, consoleTail: () => readConsoleTail(consoleLogPath(vm)) };
    return new Guest(address, origin);
  }

  static at(target: Address, origin?: GuestOrigin): Guest {
    return new Guest(target, origin);
  }

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

  /** The guest's files. Dispose of it to close its idle connections; they keep no process alive. */
  get files(): GuestFiles {
    this.#files ??= new GuestFiles(() => this.dial(ports.control));
    return this.#files;
  }

  /** What the guest says of itself, asked anew each time. Throws as {@link dial} does, and `ControlError`. */
  async hello(limits: Pick<DialOptions, "timeoutMs" | "signal"> = {}): Promise<HelloReply> {
    try {
      return await probeHello({ target: this.target, ...limits });
    } catch (error) {
      throw this.explain(error);
    }
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
   * Connects to the app's core, the host end of the bridge, and waits for it to be ready. Throws `BridgeError`
   * `not_ready`, with the last failure as its cause.
   */
  async app(options: AppOptions = {}): Promise<AppSession> {
    const { AppSession } = await import("./clients/bridge/session.ts");
    return AppSession.open((signal) => this.dial(ports.bridge, { signal }), options);
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

import type { Connection } from "./transport/connection.ts";
import { type DialOptions, dial } from "./transport/dial.ts";
import { TransportError } from "./transport/error.ts";
import { type Address, formatTarget } from "./transport/target.ts";
import { quoteConsole, readConsoleTail } from "./vm/console-log.ts";
import { VmError } from "./vm/error.ts";
import { consoleLogPath, resolveTarget } from "./vm/resolve.ts";

/** What is known of the VM around a guest, when it is one of this host's. */
interface GuestOrigin {
  name: string;
  /** path of the console log */
  consoleLog: string;
}

/**
 * A guest that can be reached. Holds no connection of its own: each operation dials what it needs, so a guest that
 * reboots is reached again.
 */
export class Guest {
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
    const origin = vm === undefined ? undefined : { name: vm.record.name, consoleLog: consoleLogPath(vm) };
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

  /** Adds the console of a VM that does not answer: a crash would else look like a timeout. */
  private explain(error: unknown): unknown {
    if (this.origin === undefined || !(error instanceof TransportError)) return error;
    if (error.code === "aborted" || error.code === "unsupported") return error;
    const { consoleLog, name } = this.origin;
    const message = `the guest of ${name} does not answer: ${error.message}`;
    return new VmError("unreachable", quoteConsole(message, readConsoleTail(consoleLog), consoleLog), error);
  }
}

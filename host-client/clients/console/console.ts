import type { ImageSource } from "#protocol/console/image.ts";
import { joined } from "#protocol/console/members.ts";
import { type PortMapping, parsePort } from "#protocol/console/port.ts";
import type { Connection } from "../../transport/connection.ts";
import { Asker } from "./asker.ts";
import { connectionChannel } from "./channel.ts";
import { ConsoleBrokenError } from "./error.ts";
import { type MountOption, mountOf } from "./mount-option.ts";
import { type ServerCommand, startServer } from "./server-process.ts";

/** Where the server is: a command to start, or a connection to a guest's console port (which the client then owns). */
export type ConsoleServer = ServerCommand | { readonly connection: Connection };

export interface ConsoleChannelOptions {
  readonly server: ConsoleServer;
  /**
   * milliseconds that an answer may take; past them the channel is broken. For an `exec` they count on top of its own
   * timeout, and an `exec` without one may take as long as it wants. No limit when absent
   */
  readonly answerWithinMs?: number;
  /** told of an answer that nobody waits for; a line on standard error when absent */
  readonly onStray?: (message: string) => void;
}

export interface ConsoleOptions extends ConsoleChannelOptions {
  readonly image?: ImageSource;
  /** what an earlier session's {@link Console.snapshot} returned */
  readonly snapshot?: Uint8Array;
  /** in the order in which they are mounted */
  readonly mounts?: readonly MountOption[];
  /** whether commands reach a network; true when absent */
  readonly network?: boolean;
  /** ways in, each `"<host port>:<session port>"` */
  readonly ports?: readonly string[];
  readonly vcpus?: number;
  readonly memoryMib?: number;
  readonly gpu?: boolean;
  readonly gpuMemoryMib?: number;
  readonly diskGib?: number;
}

export interface ConsoleRun {
  /** exit status, or 128 + the signal that killed the command */
  readonly code: number;
  readonly stdout: Uint8Array;
  readonly stderr: Uint8Array;
  /** whether either stream is only the beginning of what was written */
  readonly truncated: boolean;
}

/** Connects a channel. Throws {@link ConsoleBrokenError} when the server cannot be started. */
export async function openAsker({ server, onStray }: ConsoleChannelOptions): Promise<Asker> {
  if ("connection" in server) return new Asker(connectionChannel(server.connection), { onStray });
  try {
    return new Asker(await startServer(server), { onStray });
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    throw new ConsoleBrokenError(`cannot start the console server: ${message}`, { cause: error });
  }
}

/**
 * A session of a console server (given/console.md). One that exists is one whose `init` was answered. Calls are asked one
 * after the other, in the order in which they were made. Each throws ConsoleRefusedError, after which the session goes on,
 * or {@link ConsoleBrokenError}, after which it is over.
 */
export class Console implements AsyncDisposable {
  readonly #asker: Asker;
  readonly #answerWithinMs: number | undefined;
  #closing: Promise<void> | undefined;

  private constructor(
    asker: Asker,
    answerWithinMs: number | undefined,
    /** guest paths of the session's trees, in the order of their mounts */
    readonly mounts: readonly string[],
    /** where the session started */
    readonly cwd: string | undefined,
  ) {
    this.#asker = asker;
    this.#answerWithinMs = answerWithinMs;
  }

  /**
   * Opens a session. Throws a RangeError for a mount or port that has no spelling, before the server is started;
   * ConsoleRefusedError when the server will not have such a session, which is then gone without a `quit`.
   */
  static async open(options: ConsoleOptions): Promise<Console> {
    const mounts = (options.mounts ?? []).map(mountOf);
    const ports = (options.ports ?? []).map(portOf);
    const asker = await openAsker(options);
    try {
      const { image, snapshot, network = true, vcpus, memoryMib, gpu, gpuMemoryMib, diskGib } = options;
      const params = { image, snapshot, network, ports, vcpus, memoryMib, gpu, gpuMemoryMib, diskGib, mounts };
      const { cwd } = await asker.call("init", params, options.answerWithinMs);
      const guestPaths = mounts.map((mount) => mount.guestPath);
      return new Console(asker, options.answerWithinMs, guestPaths, cwd);
    } catch (error) {
      asker.abandon();
      throw error;
    }
  }

  /** Boots now, so that the next call need not wait for it. Never needed. */
  start(): Promise<void> {
    return this.#asker.notify("start");
  }

  /** Gives back what booting took. A command that still runs is not waited for: it is killed. */
  stop(): Promise<void> {
    return this.#asker.notify("stop");
  }

  /** Runs a command. `timeoutMs` kills it; then, and only then, there is no result: code -32000. */
  async exec(argv: readonly string[], { timeoutMs }: { timeoutMs?: number } = {}): Promise<ConsoleRun> {
    const grace = this.#answerWithinMs;
    const within = timeoutMs === undefined || grace === undefined ? undefined : timeoutMs + grace;
    const { code, stdout, stderr, truncated } = await this.#asker.call("exec", { cmd: argv, timeoutMs }, within);
    return { code, stdout: joined(stdout), stderr: joined(stderr), truncated };
  }

  /** Part of a file: less than `len` when the rest does not fit one frame. `size` is the file's. */
  async read(
    path: string,
    { offset, len }: { offset?: number; len?: number } = {},
  ): Promise<{ data: Uint8Array; size: number }> {
    const { data, size } = await this.#asker.call("read", { path, offset, len }, this.#answerWithinMs);
    return { data: joined(data), size };
  }

  /** A whole file, however large, in the pieces that it comes in. */
  async *readFile(path: string): AsyncGenerator<Uint8Array> {
    for (let offset = 0; ; ) {
      const { data, size } = await this.read(path, { offset });
      if (data.length > 0) yield data;
      offset += data.length;
      if (data.length === 0 || offset >= size) return;
    }
  }

  /** Replaces a file, or with an offset overwrites part of it. Resolves with the file's size afterwards. */
  async write(path: string, data: Uint8Array, { offset }: { offset?: number } = {}): Promise<number> {
    return (await this.#asker.call("write", { path, data, offset }, this.#answerWithinMs)).size;
  }

  /** Everything that the session has written since it began, to be given to {@link Console.open}. */
  async snapshot(): Promise<Uint8Array> {
    return joined((await this.#asker.call("snapshot", {}, this.#answerWithinMs)).blob);
  }

  /**
   * Ends the session, once the call under way is answered; again, it does nothing. Throws {@link ConsoleBrokenError} when
   * the server did not end well.
   */
  close(): Promise<void> {
    this.#closing ??= this.#asker.quit();
    return this.#closing;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}

function portOf(text: string): PortMapping {
  try {
    return parsePort(text);
  } catch (error) {
    throw new RangeError((error as Error).message);
  }
}

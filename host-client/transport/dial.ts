import { existsSync } from "node:fs";
import { createConnection, type Socket } from "node:net";
import { join } from "node:path";
import { unixSocketName } from "#protocol/ports.ts";
import { type Connection, connectionOver } from "./connection.ts";
import { TransportError, type TransportErrorCode } from "./error.ts";
import { connectHybridPort } from "./hybrid.ts";
import { type Address, formatTarget, maxSocketPathBytes } from "./target.ts";
import { openVsock } from "./vsock.ts";

/** A guest that runs answers a connect within milliseconds; one under software emulation within a second or two. */
const defaultTimeoutMs = 10_000;

export interface DialOptions {
  target: Address;
  /** vsock port of the service, see `#protocol/ports.ts` */
  port: number;
  /** deadline of the whole connect, in milliseconds; 10 000 when absent */
  timeoutMs?: number;
  /** gives up early */
  signal?: AbortSignal;
}

/**
 * Connects to a port of a guest. Throws {@link TransportError} and leaves nothing open when it does.
 */
export async function dial({ target, port, timeoutMs = defaultTimeoutMs, signal }: DialOptions): Promise<Connection> {
  const attempt = new Attempt(target, port);
  if (signal?.aborted) throw attempt.error("aborted", "the caller gave up", signal.reason);
  let timer: NodeJS.Timeout | undefined;
  let onAbort: (() => void) | undefined;
  const givenUp = new Promise<never>((_, reject) => {
    timer = setTimeout(
      () => reject(attempt.error("timeout", `no answer within ${timeoutMs / 1000} s`)),
      Math.max(0, timeoutMs),
    );
    onAbort = () => reject(attempt.error("aborted", "the caller gave up", signal?.reason));
    signal?.addEventListener("abort", onAbort, { once: true });
  });
  try {
    return await Promise.race([attempt.connect(), givenUp]);
  } catch (error) {
    attempt.abandon();
    throw error;
  } finally {
    clearTimeout(timer);
    if (onAbort) signal?.removeEventListener("abort", onAbort);
  }
}

/** One connect under way. It owns its socket until {@link connect} has resolved. */
class Attempt {
  private socket: Socket | undefined;
  private abandoned = false;

  constructor(
    private readonly target: Address,
    private readonly port: number,
  ) {}

  async connect(): Promise<Connection> {
    switch (this.target.kind) {
      case "hybrid":
        return this.connectHybrid(this.target.path);
      case "unix":
        return this.connectUnix(this.target.directory);
      case "vsock":
        return this.connectVsock(this.target.cid);
    }
  }

  /** Closes what a lost race left behind. */
  abandon(): void {
    this.abandoned = true;
    this.socket?.on("error", () => {});
    this.socket?.destroy();
  }

  error(code: TransportErrorCode, reason: string, cause?: unknown): TransportError {
    const target = formatTarget(this.target);
    return new TransportError(`cannot connect to port ${this.port} of ${target}: ${reason}`, {
      code,
      target,
      port: this.port,
      cause,
    });
  }

  private async connectHybrid(path: string): Promise<Connection> {
    const socket = await this.openUnixSocket(path, (code) => {
      // The device drops whoever comes before the guest has its driver.
      if (code === "ECONNRESET") return this.error("refused", "the guest is not up yet");
      return code === "ENOENT"
        ? this.error("unreachable", `there is no socket ${path}; is the VM running?`)
        : this.error("unreachable", `nothing serves the socket ${path}`);
    });
    const failure = await connectHybridPort(socket, this.port).catch((cause: unknown) => {
      throw this.error("unreachable", `the socket ${path} failed: ${(cause as Error).message}`, cause);
    });
    if (failure?.kind === "closed") throw this.error("refused", "nothing listens on that port in the guest");
    if (failure?.kind === "unexpected") {
      throw this.error("protocol", `${path} answered ${JSON.stringify(failure.answer)} instead of "OK <number>"`);
    }
    return connectionOver(socket, false);
  }

  private async connectUnix(directory: string): Promise<Connection> {
    const path = join(directory, unixSocketName(this.port));
    const socket = await this.openUnixSocket(path, (code) => {
      if (code !== "ENOENT") return this.error("refused", `nothing serves the socket ${path}`);
      return existsSync(directory)
        ? this.error("refused", `there is no socket ${path}`)
        : this.error("unreachable", `there is no directory ${directory}`);
    });
    return connectionOver(socket, true);
  }

  private async connectVsock(cid: number): Promise<Connection> {
    const socket = await openVsock(cid, this.port, (code, reason, cause) => this.error(code, reason, cause));
    this.own(socket);
    return connectionOver(socket, true);
  }

  private own(socket: Socket): void {
    this.socket = socket;
    if (this.abandoned) this.abandon();
  }

  /** `missing` explains ENOENT, ECONNREFUSED and ECONNRESET, which mean different things to the two transports. */
  private openUnixSocket(path: string, missing: (code: string) => TransportError): Promise<Socket> {
    if (Buffer.byteLength(path) > maxSocketPathBytes) {
      const length = Buffer.byteLength(path);
      throw this.error("unreachable", `${path} has ${length} bytes, a socket's path at most ${maxSocketPathBytes}`);
    }
    return new Promise((resolve, reject) => {
      const socket = createConnection({ path, allowHalfOpen: true });
      const onError = (cause: NodeJS.ErrnoException) => {
        const { code } = cause;
        const missed = code === "ENOENT" || code === "ECONNREFUSED" || code === "ECONNRESET";
        const error = missed ? missing(code) : this.error("unreachable", `cannot open ${path}: ${cause.message}`);
        error.cause = cause;
        socket.destroy();
        reject(error);
      };
      socket.once("error", onError);
      socket.once("connect", () => {
        socket.off("error", onError);
        socket.pause();
        resolve(socket);
      });
      this.own(socket);
    });
  }
}

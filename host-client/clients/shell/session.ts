/** The client's end of one shell session (vsock 1027), over any connection. Runs on Bun and Node. */
import { type Readable, Writable } from "node:stream";
import { match } from "ts-pattern";
import {
  decodeFrame,
  encodeFrame,
  frameType,
  RawFrameDecoder,
  type ShellFrame,
  ShellFrameError,
} from "#protocol/shell/frames.ts";
import { encodeStart, type ShellStart } from "#protocol/shell/start.ts";
import type { Connection } from "../../transport/connection.ts";
import { StdinCredit } from "./credit.ts";
import { closedEarlyMessage, closedMessage, ShellError } from "./error.ts";
import { giveUp } from "./give-up.ts";
import { SessionOutput } from "./output.ts";

/** largest stdin payload sent, in bytes */
const stdinPayloadBytes = 64 * 1024;

export interface ShellExit {
  /** the command's exit status, 128 + n when signal n killed it, 127 when it does not exist */
  readonly code: number;
}

export interface ShellSession {
  /**
   * The command's input; `end()` closes it. Writes wait for credit, and on pipes for the reader of the output. Input after
   * the exit is dropped.
   */
  readonly stdin: Writable;
  /** The command's output, or all of it on a pty. Must be consumed, as `stderr` must: both share one connection. */
  readonly stdout: Readable;
  readonly stderr: Readable;
  /** Resolves when the command runs; stays pending for one that does not exist. Rejects with {@link ShellError}. */
  readonly started: Promise<void>;
  /** Resolves with the exit status, once all output was handed to the streams. Rejects with {@link ShellError}. */
  readonly exit: Promise<ShellExit>;
  /** Resolves when the connection is closed too: wait for it before the process ends. Never rejects. */
  readonly closed: Promise<void>;
  /**
   * For a named session the offset of the next output byte, which is what a later `since` continues from; undefined
   * until the agent has said where the output starts, and for a session without a name.
   */
  readonly position: bigint | undefined;
  /** Whether output waits for its reader: until it is read, nothing more is heard of the agent. */
  readonly stalled: boolean;
  /** Tells the pty its size in cells; without effect on pipes. */
  resize(size: { readonly rows: number; readonly cols: number }): void;
  /** Signals the command's process group; the agent acts on 1 (HUP), 2 (INT) and 15 (TERM) only. */
  signal(number: number): void;
  /** Drops the connection: the agent hangs the command up (SIGHUP, 2 s, SIGKILL). */
  disconnect(reason?: ShellError): void;
}

/**
 * Starts a command over `connection`, which the session owns from here on. Flow control is always asked for.
 * Nothing is awaited: failures arrive through `started` and `exit`.
 */
export function openShell({ connection, start }: { connection: Connection; start: ShellStart }): ShellSession {
  return new Session(connection, start);
}

class Session implements ShellSession {
  readonly stdin: Writable;
  readonly stdout: Readable;
  readonly stderr: Readable;
  readonly started: Promise<void>;
  readonly exit: Promise<ShellExit>;
  readonly closed: Promise<void>;
  readonly #connection: Connection;
  readonly #decoder = new RawFrameDecoder({ streamed: [frameType.stdout, frameType.stderr] });
  readonly #credit = new StdinCredit();
  readonly #output: SessionOutput;
  readonly #tty: boolean;
  #resolveStarted: () => void = () => {};
  #rejectStarted: (error: ShellError) => void = () => {};
  #resolveExit: (exit: ShellExit) => void = () => {};
  #rejectExit: (error: ShellError) => void = () => {};
  #position: bigint | undefined;
  #running = false;
  #over = false;

  constructor(connection: Connection, start: ShellStart) {
    this.#connection = connection;
    this.#output = new SessionOutput(connection.socket);
    this.#tty = start.tty ?? false;
    this.started = new Promise((resolve, reject) => {
      this.#resolveStarted = resolve;
      this.#rejectStarted = reject;
    });
    this.exit = new Promise((resolve, reject) => {
      this.#resolveExit = resolve;
      this.#rejectExit = reject;
    });
    // Callers may care for one of the two only.
    this.started.catch(() => {});
    this.exit.catch(() => {});

    const { socket } = connection;
    this.stdout = this.#output.stdout;
    this.stderr = this.#output.stderr;
    this.stdin = new Writable({
      highWaterMark: stdinPayloadBytes,
      write: (chunk: Buffer, _encoding, done) => void this.#sendStdin(chunk).then(() => done(), done),
      final: (done) => void this.#endStdin().then(() => done(), done),
    });
    socket.on("data", (chunk: Uint8Array) => this.#receive(chunk));
    socket.on("end", () => this.#closed());
    socket.on("error", (cause) => this.#closed(cause));
    this.closed = new Promise((resolve) => {
      socket.on("close", () => {
        this.#closed();
        resolve();
      });
    });
    this.#start(start);
    socket.resume();
  }

  #start(start: ShellStart): void {
    try {
      this.#send({ type: "start", payload: encodeStart({ ...start, flow: true }) });
    } catch (cause) {
      if (!(cause instanceof ShellFrameError)) throw cause;
      this.#fail(
        new ShellError("refused", `the command and its environment cannot be sent: ${cause.message}`, { cause }),
      );
    }
  }

  get position(): bigint | undefined {
    return this.#position;
  }

  get stalled(): boolean {
    return this.#output.stalled;
  }

  resize({ rows, cols }: { readonly rows: number; readonly cols: number }): void {
    this.#sendSafely({ type: "resize", rows, cols });
  }

  signal(number: number): void {
    this.#sendSafely({ type: "signal", number });
  }

  disconnect(reason = new ShellError("closed", "the session was disconnected")): void {
    this.#fail(reason);
  }

  #receive(chunk: Uint8Array): void {
    if (this.#over) return;
    this.#decoder.push(chunk);
    try {
      for (let raw = this.#decoder.next(); raw !== undefined && !this.#over; raw = this.#decoder.next())
        this.#apply(decodeFrame(raw));
    } catch (error) {
      if (!(error instanceof ShellFrameError)) throw error;
      this.#fail(new ShellError("protocol", `the agent broke the shell protocol: ${error.message}`, { cause: error }));
    }
  }

  #apply(frame: ShellFrame): void {
    match(frame)
      .with({ type: "stdout" }, ({ bytes }) => this.#deliver(this.stdout, bytes))
      .with({ type: "stderr" }, ({ bytes }) => this.#deliver(this.stderr, bytes))
      .with({ type: "window" }, ({ bytes }) => this.#credit.add(bytes))
      .with({ type: "started" }, () => {
        this.#running = true;
        this.#credit.started();
        this.#resolveStarted();
      })
      .with({ type: "exit" }, ({ code }) => this.#finish({ code }))
      .with({ type: "error" }, ({ message }) => this.#fail(new ShellError("refused", message)))
      .with({ type: "offset" }, ({ position }) => {
        this.#position = position;
      })
      .with({ type: "start" }, { type: "stdin" }, { type: "stdinEof" }, { type: "resize" }, { type: "signal" }, () => {
        throw new ShellFrameError(`the agent sent a client's frame, ${frame.type}`);
      })
      .exhaustive();
  }

  #deliver(stream: Readable, bytes: Uint8Array): void {
    if (this.#position !== undefined) this.#position += BigInt(bytes.length);
    this.#output.deliver(stream, bytes);
  }

  async #sendStdin(chunk: Buffer): Promise<void> {
    for (let offset = 0; offset < chunk.length && !this.#over; ) {
      const wait = this.#beforeStdin();
      if (wait !== undefined) {
        await wait;
        continue;
      }
      const bytes = this.#credit.take(Math.min(stdinPayloadBytes, chunk.length - offset));
      if (bytes === 0) {
        await this.#creditChanged();
        continue;
      }
      const frame = encodeFrame({ type: "stdin", bytes: chunk.subarray(offset, offset + bytes) });
      offset += bytes;
      if (!this.#connection.socket.write(frame)) await this.#drained();
    }
  }

  async #endStdin(): Promise<void> {
    while (!this.#over) {
      const wait = this.#credit.known ? this.#beforeStdin() : this.#creditChanged();
      if (wait === undefined) break;
      await wait;
    }
    this.#send({ type: "stdinEof" });
  }

  /** Keys do not wait for the screen: one of them may be the ^C that stops the flood on it. */
  #beforeStdin(): Promise<void> | undefined {
    return this.#output.beforeWrite({ patient: !this.#tty });
  }

  #creditChanged(): Promise<void> {
    return new Promise((resolve) => this.#credit.whenChanged(resolve));
  }

  /** The socket has room again, or the session is over, in which case nothing drains any more. */
  #drained(): Promise<void> {
    const { socket } = this.#connection;
    return new Promise((resolve) => {
      const go = () => {
        socket.off("drain", go);
        socket.off("close", go);
        resolve();
      };
      socket.on("drain", go);
      socket.on("close", go);
    });
  }

  /** Sends it now, or once it is known whether the session whose output waits is over. */
  #sendSafely(frame: ShellFrame): void {
    const wait = this.#output.beforeWrite({ patient: false });
    if (wait === undefined) this.#send(frame);
    else void wait.then(() => this.#sendSafely(frame));
  }

  #send(frame: ShellFrame): void {
    const { socket } = this.#connection;
    if (this.#over || socket.destroyed || socket.writableEnded) return;
    socket.write(encodeFrame(frame));
  }

  #closed(cause?: Error): void {
    const message = this.#running ? closedMessage : closedEarlyMessage;
    this.#fail(new ShellError("closed", message, cause === undefined ? undefined : { cause }));
  }

  #finish(exit: ShellExit): void {
    if (!this.#end()) return;
    this.#connection.socket.destroy();
    this.#resolveExit(exit);
  }

  #fail(error: ShellError): void {
    if (!this.#end()) return;
    giveUp(this.#connection.socket);
    this.#rejectStarted(error);
    this.#rejectExit(error);
  }

  /** Returns whether this call was the one that ended the session. */
  #end(): boolean {
    if (this.#over) return false;
    this.#over = true;
    this.#output.end();
    // Lets a write that waits for credit finish, so that `stdin` does not hang.
    this.#credit.started();
    return true;
  }
}

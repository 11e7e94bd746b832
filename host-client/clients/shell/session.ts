/** The client's end of one shell session (vsock 1027), over any connection. Runs on Bun and Node. */
import { Readable, Writable } from "node:stream";
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

/** largest stdin payload sent, in bytes */
const stdinPayloadBytes = 64 * 1024;

/** output that may wait in a stream before the connection is read no further, in bytes */
const outputBufferBytes = 256 * 1024;

export interface ShellExit {
  /** the command's exit status, 128 + n when signal n killed it, 127 when it does not exist */
  readonly code: number;
}

export interface ShellSession {
  /** The command's input; `end()` closes it. Writes wait for credit. Input after the exit is dropped. */
  readonly stdin: Writable;
  /** The command's output, or all of it on a pty. Must be consumed, as `stderr` must: both share one connection. */
  readonly stdout: Readable;
  readonly stderr: Readable;
  /** Resolves when the command runs; stays pending for one that does not exist. Rejects with {@link ShellError}. */
  readonly started: Promise<void>;
  /** Resolves with the exit status, once all output was handed to the streams. Rejects with {@link ShellError}. */
  readonly exit: Promise<ShellExit>;
  /**
   * For a named session the offset of the next output byte, which is what a later `since` continues from; undefined
   * until the agent has said where the output starts, and for a session without a name.
   */
  readonly position: bigint | undefined;
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
  readonly #connection: Connection;
  readonly #decoder = new RawFrameDecoder({ streamed: [frameType.stdout, frameType.stderr] });
  readonly #credit = new StdinCredit();
  #resolveStarted: () => void = () => {};
  #rejectStarted: (error: ShellError) => void = () => {};
  #resolveExit: (exit: ShellExit) => void = () => {};
  #rejectExit: (error: ShellError) => void = () => {};
  /** streams whose reader is behind */
  readonly #full = new Set<Readable>();
  #position: bigint | undefined;
  #running = false;
  #over = false;

  constructor(connection: Connection, start: ShellStart) {
    this.#connection = connection;
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
    this.stdout = this.#outputStream();
    this.stderr = this.#outputStream();
    this.stdin = new Writable({
      highWaterMark: stdinPayloadBytes,
      write: (chunk: Buffer, _encoding, done) => this.#sendStdin(chunk, done),
      final: (done) => this.#endStdin(done),
    });
    socket.on("data", (chunk: Uint8Array) => this.#receive(chunk));
    socket.on("end", () => this.#closed());
    socket.on("error", (cause) => this.#closed(cause));
    socket.on("close", () => this.#closed());
    this.#send({ type: "start", payload: encodeStart({ ...start, flow: true }) });
    socket.resume();
  }

  get position(): bigint | undefined {
    return this.#position;
  }

  #outputStream(): Readable {
    const stream: Readable = new Readable({
      highWaterMark: outputBufferBytes,
      read: () => this.#resume(stream),
      // Nobody reads it any more: what still arrives is dropped, and the other stream goes on.
      destroy: (error, done) => {
        this.#resume(stream);
        done(error);
      },
    });
    return stream;
  }

  resize({ rows, cols }: { readonly rows: number; readonly cols: number }): void {
    this.#send({ type: "resize", rows, cols });
  }

  signal(number: number): void {
    this.#send({ type: "signal", number });
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
    if (stream.destroyed || stream.push(bytes)) return;
    this.#full.add(stream);
    this.#connection.socket.pause();
  }

  /** A stream asks for more: reads on once neither of the two is full. */
  #resume(stream: Readable): void {
    this.#full.delete(stream);
    if (!this.#over && this.#full.size === 0) this.#connection.socket.resume();
  }

  #sendStdin(chunk: Buffer, done: (error?: Error) => void): void {
    let offset = 0;
    const next = (): void => {
      while (offset < chunk.length) {
        if (this.#over) break;
        const bytes = this.#credit.take(Math.min(stdinPayloadBytes, chunk.length - offset));
        if (bytes === 0) {
          this.#credit.whenChanged(next);
          return;
        }
        const frame = encodeFrame({ type: "stdin", bytes: chunk.subarray(offset, offset + bytes) });
        offset += bytes;
        if (!this.#connection.socket.write(frame)) {
          this.#afterDrain(next);
          return;
        }
      }
      done();
    };
    next();
  }

  #endStdin(done: (error?: Error) => void): void {
    if (this.#over) {
      done();
      return;
    }
    if (!this.#credit.known) {
      this.#credit.whenChanged(() => this.#endStdin(done));
      return;
    }
    this.#send({ type: "stdinEof" });
    done();
  }

  /** The socket has room again, or the session is over, in which case nothing drains any more. */
  #afterDrain(callback: () => void): void {
    const { socket } = this.#connection;
    const go = () => {
      socket.off("drain", go);
      socket.off("close", go);
      callback();
    };
    socket.on("drain", go);
    socket.on("close", go);
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
    this.#resolveExit(exit);
  }

  #fail(error: ShellError): void {
    if (!this.#end()) return;
    this.#rejectStarted(error);
    this.#rejectExit(error);
  }

  /** Returns whether this call was the one that ended the session. */
  #end(): boolean {
    if (this.#over) return false;
    this.#over = true;
    this.stdout.push(null);
    this.stderr.push(null);
    // Lets a write that waits for credit finish, so that `stdin` does not hang.
    this.#credit.started();
    this.#connection.socket.destroy();
    return true;
  }
}

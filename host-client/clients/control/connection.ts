/**
 * One connection to a guest's control daemon: hello, then requests, any number at once. It speaks v1 to a stock daemon and
 * never trusts what comes back: lengths are bounded, raw blocks are streamed, and the stream stays in step when a
 * request has been given up (companion §10 B1, §11.3).
 */
import type { Socket } from "node:net";
import { encodeMessage, type WireMessage } from "#protocol/control/message.ts";
import { ControlReader } from "#protocol/control/reader.ts";
import { type HelloReply, replyEnvelope } from "#protocol/control/replies.ts";
import type { Connection } from "../../transport/connection.ts";
import { ControlError, errorCodeOf } from "./error.ts";
import { PendingRequest, type RawSink } from "./pending.ts";
import { asControlError, encodeRequest, parseHello, rawBytes } from "./wire.ts";

const handshakeMs = 8_000;

/** a raw block that nobody wants is read to its end up to this size; beyond it, a new connection is cheaper */
const drainBytes = 8 * 1024 * 1024;

export interface OpenOptions {
  /** SHA-256 of the program that this host would install, 64 lower-case hex digits */
  readonly binHash?: string | undefined;
  /** milliseconds for the handshake; 8 000 when absent */
  readonly timeoutMs?: number | undefined;
}

/** Raw bytes that follow a request. */
export interface Upload {
  /** exactly what `pieces` will give */
  readonly size: number;
  readonly pieces: AsyncIterable<Uint8Array> | Iterable<Uint8Array>;
  readonly onProgress?: ((bytesSent: number) => void) | undefined;
}

export interface RequestOptions {
  /** milliseconds without an answer, or without progress of a transfer */
  readonly timeoutMs: number;
  /** names the request in errors; its type when absent */
  readonly what?: string;
  readonly upload?: Upload | undefined;
  readonly sink?: RawSink | undefined;
}

export class ControlConnection {
  readonly #connection: Connection;
  readonly #reader: ControlReader;
  readonly #pending = new Map<string, PendingRequest>();
  #hello: HelloReply | undefined;
  #nextId = 1n;
  /** the tail of the queue of writers: a frame and its raw block are sent as one */
  #sending: Promise<void> = Promise.resolve();
  #closed: ControlError | undefined;
  #onClosed: (reason: ControlError) => void = () => {};
  /** resolves, never rejects, with the reason when the connection is over */
  readonly closed: Promise<ControlError> = new Promise((resolve) => {
    this.#onClosed = resolve;
  });

  private constructor(connection: Connection) {
    this.#connection = connection;
    const { socket } = connection;
    this.#reader = new ControlReader({ pause: () => socket.pause(), resume: () => socket.resume() });
    socket.on("data", (chunk: Uint8Array) => this.#reader.push(chunk));
    socket.on("end", () => this.#reader.end());
    socket.on("close", () => this.#reader.end());
    socket.on("error", (cause) =>
      this.#fail(new ControlError("closed", `connection failed: ${cause.message}`, { cause })),
    );
    socket.resume();
  }

  /** Shakes hands over a fresh connection, which it owns from here on. Throws {@link ControlError}. */
  static async open(
    connection: Connection,
    { binHash, timeoutMs = handshakeMs }: OpenOptions = {},
  ): Promise<ControlConnection> {
    const control = new ControlConnection(connection);
    const timer = setTimeout(
      () => control.#fail(new ControlError("timeout", `hello: no answer within ${timeoutMs / 1000} s`)),
      timeoutMs,
    );
    try {
      await control.#write(encodeMessage({ t: "hello", ...(binHash === undefined ? {} : { bin_hash: binHash }) }));
      control.#hello = parseHello(await control.#reader.frame());
    } catch (error) {
      throw control.#fail(asControlError("hello", error));
    } finally {
      clearTimeout(timer);
    }
    void control.#read();
    return control;
  }

  /** what the guest said of itself */
  get hello(): HelloReply {
    if (this.#hello === undefined) throw new Error("the handshake is not over");
    return this.#hello;
  }

  /** Whether requests can be sent. */
  get open(): boolean {
    return this.#closed === undefined;
  }

  hasCap(cap: string): boolean {
    return this.hello.caps.includes(cap);
  }

  /**
   * Sends a request and resolves with its reply, once the reply's raw block, if any, has gone through `sink`. Rejects with
   * {@link ControlError}: an `err` reply, a timeout (the connection stays usable unless an upload was cut), a lost connection.
   */
  async request(
    fields: { readonly t: string; readonly [field: string]: unknown },
    { timeoutMs, what = fields.t, upload, sink }: RequestOptions,
  ): Promise<WireMessage> {
    if (this.#closed !== undefined)
      throw new ControlError("closed", `${what}: ${this.#closed.message}`, { cause: this.#closed });
    const id = (this.#nextId++).toString(16);
    const frame = encodeRequest(what, { ...fields, id });
    const pending = new PendingRequest(what, timeoutMs, () => this.#pending.delete(id), sink);
    this.#pending.set(id, pending);
    const sent = this.#sending.then(() => this.#send(frame, pending, upload));
    this.#sending = sent.catch(() => {});
    sent.catch((error: unknown) => this.#giveUp(id, pending, error));
    return pending.reply;
  }

  /** An idle connection need not keep the process alive. */
  idle(isIdle: boolean): void {
    if (isIdle) this.#connection.socket.unref();
    else this.#connection.socket.ref();
  }

  /** Ends the connection. Pending requests fail with `closed`. */
  close(): void {
    this.#fail(new ControlError("closed", "the connection was closed"));
  }

  async #send(frame: Buffer, pending: PendingRequest, upload: Upload | undefined): Promise<void> {
    // Given up while it waited for its turn: nothing of it has been sent, so nothing needs to be.
    if (pending.settled) return;
    await this.#write(frame);
    if (upload === undefined || upload.size === 0) return;
    let sent = 0;
    const torn = (reason: string, cause?: unknown): ControlError =>
      this.#fail(
        new ControlError("closed", `${pending.what}: ${reason} after ${sent} of ${upload.size} bytes`, { cause }),
      );
    try {
      for await (const piece of upload.pieces) {
        if (this.#notWorthSending(pending, upload.size - sent)) break;
        if (sent + piece.length > upload.size) throw new RangeError("the source has more bytes than announced");
        await this.#write(piece);
        sent += piece.length;
        pending.progress();
        upload.onProgress?.(sent);
      }
    } catch (cause) {
      const reason = cause instanceof Error ? cause.message : String(cause);
      torn(reason, cause);
      throw cause instanceof ControlError ? cause : new ControlError("local", `${pending.what}: ${reason}`, { cause });
    }
    // What is missing can never be made up: the daemon would take the next frame for file content.
    if (sent < upload.size) throw torn("the upload was cut");
  }

  /** A request that was refused early: a short rest is sent so that the connection can be kept. */
  #notWorthSending(pending: PendingRequest, left: number): boolean {
    return pending.timedOut || (pending.settled && left > drainBytes);
  }

  #giveUp(id: string, pending: PendingRequest, error: unknown): void {
    this.#pending.delete(id);
    if (!pending.settled) pending.fail(asControlError(pending.what, error));
  }

  async #read(): Promise<void> {
    try {
      for (;;) {
        const message = await this.#reader.frame();
        if (message === undefined) throw new ControlError("closed", "the guest closed the connection");
        const raw = rawBytes(message);
        this.#reader.expectRaw(raw);
        await this.#deliver(message, raw);
      }
    } catch (error) {
      this.#fail(asControlError("connection", error));
    }
  }

  async #deliver(message: WireMessage, raw: number): Promise<void> {
    const { id } = message;
    const pending = typeof id === "string" ? this.#pending.get(id) : undefined;
    if (typeof id !== "string" || pending === undefined) {
      // A late answer: nobody waits for it any more, and the reader skips its raw block.
      if (raw > drainBytes) throw new ControlError("closed", "a reply that was given up is too long to skip");
      return;
    }
    const envelope = replyEnvelope.safeParse(message);
    if (!envelope.success) throw new ControlError("protocol", `${pending.what}: a reply that is none`);
    try {
      for (let piece = await this.#reader.raw(); piece !== undefined; piece = await this.#reader.raw()) {
        if (pending.settled) break;
        pending.progress();
        await pending.sink?.(piece, message);
      }
    } catch (cause) {
      this.#pending.delete(id);
      pending.fail(asControlError(pending.what, cause));
      if (!this.#usable()) throw cause;
    }
    this.#pending.delete(id);
    if (pending.settled) {
      if (!this.#usable()) throw new ControlError("closed", `${pending.what}: given up in mid-transfer`);
      return;
    }
    const { t, msg = "unknown error", code, reason } = envelope.data;
    const text = reason === undefined ? msg : `${msg}: ${reason}`;
    if (t === "err") pending.fail(new ControlError(errorCodeOf(code), `${pending.what}: ${text}`));
    else pending.succeed(message);
  }

  /** Whether the rest of the raw block under way is worth skipping. */
  #usable(): boolean {
    return this.#closed === undefined && this.#reader.rawRemaining <= drainBytes;
  }

  /** Resolves when the socket has room again; a peer that takes nothing is ended by the request's own timer. */
  async #write(chunk: Uint8Array): Promise<void> {
    if (this.#closed !== undefined) throw this.#closed;
    const { socket } = this.#connection;
    if (!socket.write(chunk)) await drained(socket);
    if (this.#closed !== undefined) throw this.#closed;
  }

  /** The one place where a connection ends; the first reason stands. */
  #fail(reason: ControlError): ControlError {
    if (this.#closed !== undefined) return this.#closed;
    this.#closed = reason;
    this.#connection.socket.destroy();
    for (const pending of this.#pending.values()) {
      pending.fail(new ControlError("closed", `${pending.what}: ${reason.message}`, { cause: reason }));
    }
    this.#pending.clear();
    this.#onClosed(reason);
    return reason;
  }
}

function drained(socket: Socket): Promise<void> {
  return new Promise((resolve) => {
    const settle = (): void => {
      socket.off("drain", settle);
      socket.off("close", settle);
      resolve();
    };
    socket.on("drain", settle);
    socket.on("close", settle);
    if (socket.destroyed) settle();
  });
}

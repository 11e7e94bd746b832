/**
 * The core's end of the bridge as a stream of messages: listens on the app's socket, serves one connection, and lets a
 * newer one replace the older (companion, "Connections").
 */
import { chmodSync, mkdirSync, rmSync } from "node:fs";
import { createServer, type Server, type Socket } from "node:net";
import { dirname } from "node:path";
import { encodeMessage } from "#protocol/bridge/encode.ts";
import { LineWriter } from "#protocol/bridge/line-writer.ts";
import { LineDecoder } from "#protocol/bridge/lines.ts";
import type { CoreMessage, HostMessage } from "#protocol/bridge/messages.ts";
import { parseHostMessage } from "#protocol/bridge/parse.ts";
import { describe, warn } from "./log.ts";

/** A host that does not read its answers is not read from either, beyond this many UTF-16 units of them. */
const mostWaitingUnits = 32 * 1024 * 1024;

/** what `sun_path` holds, without the closing zero */
const maxPathBytes = 107;

/** One connection of the host. Answers go to the connection that asked; after it is replaced they are dropped. */
export interface HostConnection {
  /**
   * Resolves once the message is handed to the system, or the connection has gone. Throws `EncodeError` when it cannot
   * be sent; the connection is as before.
   */
  send(message: CoreMessage): Promise<void>;
}

export interface HostLinkEvents {
  onMessage(connection: HostConnection, message: HostMessage): void;
  /** A call that could be read no further than its id; it wants an answer. */
  onMalformedInvoke(connection: HostConnection, id: number, reason: string): void;
  onMalformedReply(id: number, reason: string): void;
  /** the connection is over; `replaced` when a newer one has taken its place, and is heard after this */
  onEnd(replaced: boolean): void;
}

export class HostLink {
  readonly #events: HostLinkEvents;
  readonly #server: Server;
  #current: LiveConnection | undefined;

  constructor(events: HostLinkEvents) {
    this.#events = events;
    this.#server = createServer((socket) => this.#accept(socket));
  }

  get connection(): HostConnection | undefined {
    return this.#current;
  }

  /** Replaces an old socket file; the new one is for this user alone. Rejects when the path cannot be taken. */
  async listen(path: string): Promise<void> {
    // Node cuts a longer one off, and listens elsewhere.
    if (Buffer.byteLength(path) > maxPathBytes)
      throw new RangeError(`the path of a socket has at most ${maxPathBytes} bytes`);
    mkdirSync(dirname(path), { recursive: true });
    rmSync(path, { force: true });
    await new Promise<void>((resolve, reject) => {
      this.#server.once("error", reject);
      const umask = process.umask(0o177);
      try {
        this.#server.listen(path, () => {
          chmodSync(path, 0o600);
          resolve();
        });
      } finally {
        process.umask(umask);
      }
    });
  }

  /** Stops listening and closes the connection once everything sent is handed over. */
  async close(): Promise<void> {
    this.#server.close();
    await this.#current?.end();
  }

  #accept(socket: Socket): void {
    const previous = this.#current;
    const connection = new LiveConnection(socket, this.#events, () => {
      if (this.#current !== connection) return;
      this.#current = undefined;
      this.#events.onEnd(false);
    });
    this.#current = connection;
    if (previous === undefined) return;
    previous.destroy();
    this.#events.onEnd(true);
  }
}

class LiveConnection implements HostConnection {
  readonly #socket: Socket;
  readonly #events: HostLinkEvents;
  readonly #decoder = new LineDecoder();
  readonly #writer: LineWriter;

  constructor(socket: Socket, events: HostLinkEvents, onEnd: () => void) {
    this.#socket = socket;
    this.#events = events;
    this.#writer = new LineWriter((bytes, done) => {
      socket.write(bytes, () => done());
    });
    socket.on("error", () => {});
    socket.on("data", (chunk: Buffer) => this.#read(chunk));
    socket.once("close", () => {
      this.#writer.close();
      onEnd();
    });
  }

  send(message: CoreMessage): Promise<void> {
    return this.#writer.write(encodeMessage(message));
  }

  destroy(): void {
    this.#writer.close();
    this.#socket.destroy();
  }

  async end(): Promise<void> {
    await this.#writer.drained();
    await new Promise<void>((resolve) => this.#socket.end(() => resolve()));
  }

  #read(chunk: Buffer): void {
    if (this.#socket.destroyed) return;
    try {
      this.#decoder.push(chunk);
      // What still comes from a connection that was replaced is nobody's.
      while (!this.#socket.destroyed) {
        const line = this.#decoder.next();
        if (line === undefined) break;
        this.#readLine(line);
      }
    } catch (error) {
      warn(`connection ended: ${error instanceof Error ? error.message : String(error)}`);
      this.destroy();
      return;
    }
    if (this.#writer.waitingUnits > mostWaitingUnits) {
      this.#socket.pause();
      void this.#writer.drained().then(() => this.#socket.resume());
    }
  }

  #readLine(line: Uint8Array): void {
    const parsed = parseHostMessage(line);
    switch (parsed.kind) {
      case "message":
        try {
          this.#events.onMessage(this, parsed.message);
        } catch (error) {
          warn(`the app failed on ${parsed.message.t}: ${describe(error)}`);
        }
        return;
      case "empty":
        return;
      case "unknown":
        warn(`message of unknown type ${JSON.stringify(parsed.t)} ignored`);
        return;
      case "malformed":
        warn(`line dropped: ${parsed.reason}`);
        if (parsed.id === undefined) return;
        if (parsed.t === "invoke") this.#events.onMalformedInvoke(this, parsed.id, parsed.reason);
        if (parsed.t === "reply") this.#events.onMalformedReply(parsed.id, parsed.reason);
    }
  }
}

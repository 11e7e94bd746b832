/** One connection to a core as a stream of messages. */
import { encodeMessage } from "#protocol/bridge/encode.ts";
import { LineWriter } from "#protocol/bridge/line-writer.ts";
import { LineDecoder } from "#protocol/bridge/lines.ts";
import type { CoreMessage, HostMessage } from "#protocol/bridge/messages.ts";
import { type Parsed, parseCoreMessage } from "#protocol/bridge/parse.ts";
import type { Connection } from "../../transport/connection.ts";

/** A core that asks and does not read its answers is let go, beyond this many UTF-16 units of them. */
const mostWaitingUnits = 64 * 1024 * 1024;
/** so long may a core take to read what it was sent before the connection was closed */
const finishMs = 2_000;

export interface LinkEvents {
  /** every line that is not empty, with its length in bytes */
  onLine(parsed: Exclude<Parsed<CoreMessage>, { kind: "empty" }>, bytes: number): void;
  /** a message has been queued, as the line that it is */
  onSent(message: HostMessage, line: string): void;
  /** the connection is over; `reason` where it is known */
  onEnd(reason: string | undefined): void;
}

export class Link {
  readonly #connection: Connection;
  readonly #events: LinkEvents;
  readonly #decoder = new LineDecoder();
  readonly #writer: LineWriter;
  /** UTF-16 units of answers that the system has not taken yet */
  #waitingAnswerUnits = 0;
  #reason: string | undefined;
  #over = false;

  /** Starts to read. Takes the connection over. */
  constructor(connection: Connection, events: LinkEvents) {
    this.#connection = connection;
    this.#events = events;
    const { socket } = connection;
    this.#writer = new LineWriter((bytes, done) => {
      socket.write(bytes, () => done());
    });
    socket.on("error", (error) => this.#end(error.message));
    socket.on("end", () => this.#end(undefined));
    socket.on("close", () => this.#end(undefined));
    socket.on("data", (chunk: Buffer) => this.#read(chunk));
    socket.resume();
  }

  /** Resolves once the message is handed to the system, or the connection is over. Throws `EncodeError`. */
  send(message: HostMessage): Promise<void> {
    const line = encodeMessage(message);
    if (this.#over) return Promise.resolve();
    const taken = this.#writer.write(line);
    this.#events.onSent(message, line);
    if (message.t === "reply") this.#limitAnswers(line.length, taken);
    return taken;
  }

  /** Closes once everything sent is handed over, or the core has not read it for too long. */
  async finish(): Promise<void> {
    const timer = setTimeout(() => this.#connection.socket.destroy(), finishMs);
    await this.#writer.drained();
    this.#over = true;
    await this.#connection.finish();
    clearTimeout(timer);
  }

  destroy(reason: string): void {
    this.#reason ??= reason;
    this.#connection.socket.destroy();
    this.#end(undefined);
  }

  /** What the embedder sends is its own affair; what a core makes it answer is not. */
  #limitAnswers(units: number, taken: Promise<void>): void {
    this.#waitingAnswerUnits += units;
    void taken.then(() => {
      this.#waitingAnswerUnits -= units;
    });
    if (this.#waitingAnswerUnits > mostWaitingUnits) this.destroy("the core does not read its answers");
  }

  #read(chunk: Buffer): void {
    try {
      this.#decoder.push(chunk);
      while (!this.#over) {
        const line = this.#decoder.next();
        if (line === undefined) return;
        const parsed = parseCoreMessage(line);
        if (parsed.kind !== "empty") this.#tell(parsed, line.length);
      }
    } catch (error) {
      this.destroy(error instanceof Error ? error.message : String(error));
    }
  }

  #tell(parsed: Exclude<Parsed<CoreMessage>, { kind: "empty" }>, bytes: number): void {
    try {
      this.#events.onLine(parsed, bytes);
    } catch (error) {
      // A listener of the embedder failed: its own affair, and no reason to end the connection.
      queueMicrotask(() => {
        throw error;
      });
    }
  }

  #end(reason: string | undefined): void {
    if (this.#over) return;
    this.#over = true;
    this.#writer.close();
    this.#connection.socket.destroy();
    this.#events.onEnd(this.#reason ?? reason);
  }
}

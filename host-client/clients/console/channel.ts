/** Frames to and from a console server, whatever carries them. */
import type { Readable, Writable } from "node:stream";
import { FrameInbox } from "#protocol/console/frame-inbox.ts";
import type { Connection } from "../../transport/connection.ts";

export interface ConsoleChannel {
  /** Sends one frame; resolves once the stream has taken it. Rejects when the server can hear nothing any more. */
  send(pieces: readonly Uint8Array[]): Promise<void>;
  /** The next payload, or undefined when the server closed between frames. Rejects for anything else. */
  next(): Promise<Uint8Array | undefined>;
  /** Says that nothing more is sent and waits for the server's end. Rejects with how it ended, if that was not well. */
  end(): Promise<void>;
  /** Gives the channel up at once. */
  abandon(): void;
}

/** What is written in one go: a stream copies what it cannot take at once, and with whole frames that took five times as long. */
const writeBytes = 256 * 1024;

/** Both directions of a stream, without a notion of how it is closed. */
export class FrameStreams {
  readonly #inbox: FrameInbox;
  readonly #output: Writable;
  #lost: Error | undefined;
  #wakeWriter: (() => void) | undefined;

  constructor({ input, output }: { input: Readable; output: Writable }) {
    this.#output = output;
    this.#inbox = new FrameInbox((flowing) => (flowing ? input.resume() : input.pause()));
    input.on("data", (chunk: Uint8Array) => this.#inbox.push(chunk));
    input.on("end", () => this.#inbox.end());
    input.on("error", (error) => this.#inbox.fail(error));
    input.on("close", () => this.#inbox.fail(new Error("the connection was lost")));
    input.pause();
    output.on("error", (error) => this.#lose(error));
    output.on("close", () => this.#lose(new Error("the connection was lost")));
    output.on("drain", () => this.#wakeWriter?.());
  }

  next(): Promise<Uint8Array | undefined> {
    return this.#inbox.next();
  }

  async send(pieces: readonly Uint8Array[]): Promise<void> {
    for (const piece of pieces) {
      for (let offset = 0; offset < piece.length; offset += writeBytes) {
        if (this.#lost !== undefined) throw this.#lost;
        if (this.#output.write(piece.subarray(offset, offset + writeBytes))) continue;
        await new Promise<void>((resolve) => {
          this.#wakeWriter = resolve;
        });
        this.#wakeWriter = undefined;
      }
    }
    if (this.#lost !== undefined) throw this.#lost;
  }

  #lose(error: Error): void {
    this.#lost ??= error;
    this.#wakeWriter?.();
  }
}

/** The channel over a connection to a guest's console port. It owns the connection. */
export function connectionChannel(connection: Connection): ConsoleChannel {
  const streams = new FrameStreams({ input: connection.socket, output: connection.socket });
  return {
    send: (pieces) => streams.send(pieces),
    next: () => streams.next(),
    end: () => connection.finish(),
    abandon: () => connection.socket.destroy(),
  };
}

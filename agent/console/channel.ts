/** One console channel over a pair of byte streams: a socket, or this process's standard input and output. */
import type { Socket } from "node:net";
import type { Readable, Writable } from "node:stream";
import { FrameInbox } from "#protocol/console/frame-inbox.ts";
import { peerIsGone } from "#sys/peer-gone.ts";
import { descriptorOf } from "../descriptor.ts";

/** What is written in one go: a stream copies what it cannot take at once, and with whole frames that took five times as long. */
const writeBytes = 256 * 1024;

export class Channel {
  readonly #inbox: FrameInbox;
  readonly #output: Writable;
  readonly #outputFd: () => number | undefined;
  #outputClosed = false;
  #wakeWriter: (() => void) | undefined;

  constructor(
    { input, output, outputFd }: { input: Readable; output: Writable; outputFd: () => number | undefined },
    /** called once when the peer can hear nothing any more */
    onLost: () => void,
  ) {
    this.#output = output;
    this.#outputFd = outputFd;
    this.#inbox = new FrameInbox((flowing) => (flowing ? input.resume() : input.pause()));
    input.on("data", (chunk: Uint8Array) => this.#inbox.push(chunk));
    input.on("end", () => this.#inbox.end());
    input.on("error", (error) => this.#inbox.fail(error));
    input.on("close", () => this.#inbox.fail(new Error("the connection was lost")));
    input.pause();
    const lost = () => {
      if (this.#outputClosed) return;
      this.#outputClosed = true;
      this.#wakeWriter?.();
      onLost();
    };
    output.on("error", lost);
    output.on("close", lost);
    output.on("drain", () => this.#wakeWriter?.());
  }

  /** The channel of an accepted connection. */
  static overSocket(socket: Socket, onLost: () => void): Channel {
    return new Channel({ input: socket, output: socket, outputFd: () => descriptorOf(socket) }, onLost);
  }

  /** Asks whether the peer can hear nothing any more; an input that has ended does not tell. */
  get peerGone(): boolean {
    const fd = this.#outputFd();
    return this.#outputClosed || fd === undefined || peerIsGone(fd);
  }

  /** The next payload, or undefined when the peer closed between frames; see {@link FrameInbox.next}. */
  next(): Promise<Uint8Array | undefined> {
    return this.#inbox.next();
  }

  /** Sends the pieces of one frame; resolves once the stream has taken them, or the peer is gone. One at a time. */
  async send(pieces: readonly Uint8Array[]): Promise<void> {
    for (const piece of pieces) {
      for (let offset = 0; offset < piece.length; offset += writeBytes) {
        if (this.#outputClosed) return;
        if (this.#output.write(piece.subarray(offset, offset + writeBytes))) continue;
        await new Promise<void>((resolve) => {
          this.#wakeWriter = resolve;
        });
        this.#wakeWriter = undefined;
      }
    }
  }
}

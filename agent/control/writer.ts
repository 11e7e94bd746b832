import type { Socket } from "node:net";
import { encodeMessage } from "#protocol/control/message.ts";
import { FrameLimitError } from "#protocol/framing.ts";

/** a peer that takes nothing for this long is gone, or means harm */
const stalledMs = 60_000;

/** What a reply holds beside the envelope. */
export type ReplyFields = { readonly t: string; readonly [field: string]: unknown };

/**
 * The sending half of a session. There is one writer a connection and the session awaits every call, so a frame and its
 * raw block are never torn apart.
 */
export class ReplyWriter {
  readonly #socket: Socket;

  constructor(socket: Socket) {
    this.#socket = socket;
  }

  /** Sends one frame; a reply that would be 4 MiB or more is answered as `err` `too_large` instead. */
  async frame(fields: ReplyFields): Promise<void> {
    await this.bytes(encodeReply(fields));
  }

  /** Resolves when the socket has room again. Rejects when the connection is gone or takes nothing for a minute. */
  async bytes(chunk: Uint8Array): Promise<void> {
    const socket = this.#socket;
    if (!socket.writable) throw new Error("the connection is closed");
    if (socket.write(chunk)) return;
    await new Promise<void>((resolve, reject) => {
      const settle = (error?: Error): void => {
        clearTimeout(timer);
        socket.off("drain", onDrain);
        socket.off("close", onClose);
        if (error === undefined) resolve();
        else reject(error);
      };
      const onDrain = (): void => settle();
      const onClose = (): void => settle(new Error("the connection closed"));
      const timer = setTimeout(() => settle(new Error("the peer stopped reading")), stalledMs);
      socket.on("drain", onDrain);
      socket.on("close", onClose);
    });
  }

  /** Resolves once everything written so far is with the kernel. */
  flushed(): Promise<void> {
    return new Promise((resolve) => {
      if (this.#socket.destroyed) resolve();
      else this.#socket.write("", () => resolve());
    });
  }
}

function encodeReply(fields: ReplyFields): Buffer {
  try {
    return encodeMessage(fields);
  } catch (error) {
    if (!(error instanceof FrameLimitError)) throw error;
    const refusal = { t: "err", msg: `the reply would be ${error.message}`, code: "too_large" };
    const id = fields.id;
    // An id that fills a frame by itself cannot be echoed.
    const echo = id !== undefined && JSON.stringify(id).length < 64 * 1024;
    return encodeMessage(echo ? { ...refusal, id } : refusal);
  }
}

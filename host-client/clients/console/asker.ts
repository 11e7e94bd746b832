/** The asking end of one channel: numbers its calls, waits for the answer of each, and answers nothing itself. */

import type { CallMethod, Calls, NotificationMethod } from "#protocol/console/calls.ts";
import { ErrorCode } from "#protocol/console/errors.ts";
import { decodeMessage, encodeMessage, type Message, type Request } from "#protocol/console/message.ts";
import { FrameLimitError } from "#protocol/framing.ts";
import type { ConsoleChannel } from "./channel.ts";
import { ConsoleBrokenError, ConsoleRefusedError } from "./error.ts";

export interface AskerOptions {
  /** told of an answer that nobody waits for; a line on standard error when absent */
  readonly onStray?: ((message: string) => void) | undefined;
}

export class Asker {
  readonly #channel: ConsoleChannel;
  readonly #onStray: (message: string) => void;
  #nextId = 0n;
  #broken: ConsoleBrokenError | undefined;
  /** the call that is under way: one at a time */
  #turn: Promise<unknown> = Promise.resolve();
  /** the frame that is being written: a notification may be sent while a call waits for its answer */
  #writing: Promise<unknown> = Promise.resolve();

  constructor(channel: ConsoleChannel, { onStray }: AskerOptions = {}) {
    this.#channel = channel;
    this.#onStray = onStray ?? ((message) => void process.stderr.write(`${message}\n`));
  }

  /**
   * Asks and waits, after the calls before it.
   * @param answerWithinMs milliseconds from the moment it is sent; past them the channel is broken. No limit when absent
   * Throws {@link ConsoleRefusedError}, {@link ConsoleBrokenError}, or FrameLimitError for a call too large to be sent.
   */
  call<Method extends CallMethod>(
    method: Method,
    params: Calls[Method]["params"],
    answerWithinMs?: number,
  ): Promise<Calls[Method]["result"]> {
    const call = this.#turn.then(() => this.#ask(method, params, answerWithinMs));
    this.#turn = call.catch(() => {});
    return call;
  }

  /** Tells; nothing answers. Does not wait for a call that is under way. Throws {@link ConsoleBrokenError}. */
  async notify(method: NotificationMethod): Promise<void> {
    if (this.#broken !== undefined) throw this.#broken;
    await this.#send({ kind: "notification", method });
  }

  /**
   * Says `quit`, waits for the call that is under way, whose answer is owed all the same, and for the server's end. Throws
   * {@link ConsoleBrokenError} when that was not a good one.
   */
  async quit(): Promise<void> {
    await this.notify("quit").catch(() => {});
    await this.#turn;
    try {
      await this.#channel.end();
    } catch (error) {
      throw this.#break(messageOf(error), error);
    }
  }

  /** Ends the channel without a word. */
  abandon(): void {
    this.#break("the channel was given up");
  }

  async #ask<Method extends CallMethod>(
    method: Method,
    params: Calls[Method]["params"],
    answerWithinMs: number | undefined,
  ): Promise<Calls[Method]["result"]> {
    if (this.#broken !== undefined) throw this.#broken;
    // Spent whether or not it is sent: a later answer under it can then never be mistaken for another's.
    const id = this.#nextId++;
    const timer = this.#deadline(method, id, answerWithinMs);
    try {
      await this.#send({ kind: "request", id, method, params } as Request);
      return await this.#answer(method, id);
    } finally {
      clearTimeout(timer);
    }
  }

  #deadline(method: string, id: bigint, milliseconds: number | undefined): NodeJS.Timeout | undefined {
    if (milliseconds === undefined) return undefined;
    const message = `the console server did not answer request ${id} (${method}) within ${milliseconds} ms`;
    return setTimeout(() => this.#break(message), milliseconds);
  }

  async #answer<Method extends CallMethod>(method: Method, id: bigint): Promise<Calls[Method]["result"]> {
    for (;;) {
      const message = await this.#next(id);
      switch (message.kind) {
        case "request":
        case "notification":
          throw this.#break(
            `the console server sent a ${message.kind} (${message.method}), and a client answers nothing`,
          );
        case "error":
        case "result":
          if (message.id !== id) {
            this.#onStray(`an answer to request ${message.id}, which nobody waits for, was dropped`);
            continue;
          }
          if (message.kind === "error")
            throw new ConsoleRefusedError(method, message.error.code, message.error.message);
          if (message.method !== method) {
            const text = `request ${id} (${method}) was answered with a result of ${message.method}`;
            throw new ConsoleRefusedError(method, ErrorCode.internal, text);
          }
          return message.result as Calls[Method]["result"];
      }
    }
  }

  async #next(id: bigint): Promise<Message> {
    try {
      const payload = await this.#channel.next();
      if (payload === undefined)
        throw new Error(`the console server closed the channel before answering request ${id}`);
      return decodeMessage(payload);
    } catch (error) {
      throw this.#break(messageOf(error), error);
    }
  }

  async #send(message: Message): Promise<void> {
    const pieces = encodeMessage(message);
    const sent = this.#writing.then(() => this.#channel.send(pieces));
    this.#writing = sent.catch(() => {});
    try {
      await sent;
    } catch (error) {
      if (error instanceof FrameLimitError) throw error;
      throw this.#break(messageOf(error), error);
    }
  }

  /** From here on every call fails with this; the first reason stays. */
  #break(message: string, cause?: unknown): ConsoleBrokenError {
    if (this.#broken === undefined) {
      this.#broken = new ConsoleBrokenError(message, cause === undefined ? undefined : { cause });
      this.#channel.abandon();
    }
    return this.#broken;
  }
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

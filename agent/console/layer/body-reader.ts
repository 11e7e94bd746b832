/** Takes the body of an entry in pieces of a chosen size. */
import { ByteQueue } from "#protocol/byte-queue.ts";

export class BodyReader {
  readonly #source: AsyncIterator<Uint8Array>;
  readonly #queue = new ByteQueue();

  constructor(body: AsyncIterable<Uint8Array>) {
    this.#source = body[Symbol.asyncIterator]();
  }

  /** Exactly `bytes` bytes. Throws an Error when the body has fewer. */
  async take(bytes: number): Promise<Uint8Array> {
    while (this.#queue.length < bytes) await this.#more();
    return this.#queue.take(bytes);
  }

  /** At least one byte and at most `limit`. Throws an Error at the end of the body. */
  async takeUpTo(limit: number): Promise<Uint8Array> {
    while (this.#queue.length === 0) await this.#more();
    return this.#queue.takeUpTo(limit);
  }

  async #more(): Promise<void> {
    const { done, value } = await this.#source.next();
    if (done === true) throw new Error("the body ends too early");
    this.#queue.push(value);
  }
}

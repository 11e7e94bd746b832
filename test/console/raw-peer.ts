/** A peer that writes and reads frames with the npm BSON library, so that our codec is not judged by itself. */
import type { Readable, Writable } from "node:stream";
import { BSON, Long } from "bson";

export type RawDocument = Record<string, unknown>;

export class RawPeer {
  #buffer: Buffer = Buffer.alloc(0);
  #ended = false;
  #wake: (() => void) | undefined;
  #nextId = 0;

  constructor(
    input: Readable,
    private readonly output: Writable,
  ) {
    input.on("data", (chunk: Buffer) => {
      this.#buffer = Buffer.concat([this.#buffer, chunk]);
      this.#wake?.();
    });
    const end = () => {
      this.#ended = true;
      this.#wake?.();
    };
    input.on("end", end);
    input.on("close", end);
    input.on("error", end);
    output.on("error", end);
    input.resume();
  }

  sendBytes(bytes: Uint8Array): void {
    this.output.write(bytes);
  }

  send(document: RawDocument): void {
    const payload = BSON.serialize(document, { ignoreUndefined: true });
    const header = Buffer.alloc(4);
    header.writeUInt32BE(payload.length);
    this.sendBytes(Buffer.concat([header, payload]));
  }

  /** The next answer, or undefined when the server closed. */
  async receive(): Promise<RawDocument | undefined> {
    for (;;) {
      const length = this.#buffer.length >= 4 ? this.#buffer.readUInt32BE() : undefined;
      if (length !== undefined && this.#buffer.length >= 4 + length) {
        const payload = this.#buffer.subarray(4, 4 + length);
        this.#buffer = this.#buffer.subarray(4 + length);
        return BSON.deserialize(payload, { promoteBuffers: true });
      }
      if (this.#ended) return undefined;
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }

  /** Sends a request under the next id and returns the next answer. */
  async call(method: string, params?: unknown): Promise<RawDocument> {
    const id = this.#nextId++;
    this.send({ jsonrpc: "2.0", id: Long.fromNumber(id), method, params });
    const answer = await this.receive();
    if (answer === undefined) throw new Error(`the server closed before it answered ${method}`);
    if (answer.id !== id) throw new Error(`request ${id} was answered under ${String(answer.id)}`);
    return answer;
  }

  notify(method: string): void {
    this.send({ jsonrpc: "2.0", method });
  }

  end(): void {
    this.output.end();
  }
}

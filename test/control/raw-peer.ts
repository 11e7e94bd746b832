/** A peer that sends exactly the bytes it is told to and reads exactly what comes, with nothing of the product's code. */
import { createConnection, type Socket } from "node:net";

export type Json = { readonly [field: string]: unknown };

/** Header and JSON of one message, the JSON given as text where its form matters. */
export function frame(message: Json | string): Buffer {
  const payload = Buffer.from(typeof message === "string" ? message : JSON.stringify(message), "utf8");
  const header = Buffer.alloc(4);
  header.writeUInt32BE(payload.length);
  return Buffer.concat([header, payload]);
}

export class RawPeer {
  #received: Buffer = Buffer.alloc(0);
  #ended = false;
  #wake: () => void = () => {};

  private constructor(readonly socket: Socket) {
    socket.on("data", (chunk: Buffer) => {
      this.#received = this.#received.length === 0 ? chunk : Buffer.concat([this.#received, chunk]);
      this.#wake();
    });
    for (const event of ["end", "close", "error"]) {
      socket.on(event, () => {
        this.#ended = true;
        this.#wake();
      });
    }
  }

  static over(socket: Socket): RawPeer {
    return new RawPeer(socket);
  }

  static connect(path: string): Promise<RawPeer> {
    return new Promise((resolve, reject) => {
      const socket = createConnection({ path, allowHalfOpen: true });
      socket.once("error", reject);
      socket.once("connect", () => resolve(new RawPeer(socket)));
    });
  }

  send(message: Json | string): void {
    this.socket.write(frame(message));
  }

  sendBytes(bytes: Uint8Array): void {
    this.socket.write(bytes);
  }

  /** Exactly `count` bytes, or undefined when the connection ends first. */
  async take(count: number, timeoutMs = 10_000): Promise<Buffer | undefined> {
    const deadline = Date.now() + timeoutMs;
    while (this.#received.length < count) {
      if (this.#ended) return undefined;
      await this.#more(deadline, `${count} bytes, has ${this.#received.length}`);
    }
    const taken = this.#received.subarray(0, count);
    this.#received = this.#received.subarray(count);
    return taken;
  }

  /** The next message, or undefined when the connection ends first. */
  async reply(timeoutMs?: number): Promise<Json | undefined> {
    const header = await this.take(4, timeoutMs);
    if (header === undefined) return undefined;
    const payload = await this.take(header.readUInt32BE(0), timeoutMs);
    return payload === undefined ? undefined : (JSON.parse(payload.toString("utf8")) as Json);
  }

  /** Sends a message and takes the next reply. */
  ask(message: Json | string): Promise<Json | undefined> {
    this.send(message);
    return this.reply();
  }

  /** Whether the other side ends the connection in time; what it still sends is dropped. */
  async endsWithin(timeoutMs: number): Promise<boolean> {
    const deadline = Date.now() + timeoutMs;
    try {
      while (!this.#ended) await this.#more(deadline, "the end");
      return true;
    } catch {
      return false;
    }
  }

  close(): void {
    this.socket.destroy();
  }

  async #more(deadline: number, wanted: string): Promise<void> {
    let timer: NodeJS.Timeout | undefined;
    const timedOut = new Promise<boolean>((resolve) => {
      timer = setTimeout(() => resolve(true), Math.max(0, deadline - Date.now()));
    });
    const woken = new Promise<boolean>((resolve) => {
      this.#wake = () => resolve(false);
    });
    const late = await Promise.race([timedOut, woken]);
    clearTimeout(timer);
    if (late) throw new Error(`the peer waited in vain for ${wanted}`);
  }
}

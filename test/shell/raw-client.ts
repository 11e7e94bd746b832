/**
 * A client of the shell protocol that does exactly what a test tells it, right or wrong: it sends the bytes it is given and
 * keeps every frame that comes back, in order. Nothing is sent or answered by itself.
 */
import { createConnection, type Socket } from "node:net";
import { join } from "node:path";
import { ports, unixSocketName } from "#protocol/ports.ts";
import { decodeFrame, encodeFrame, encodeRawFrame, RawFrameDecoder, type ShellFrame } from "#protocol/shell/frames.ts";
import { encodeStart, type ShellStart } from "#protocol/shell/start.ts";

const defaultTimeoutMs = 15_000;

type FrameOf<T extends ShellFrame["type"]> = Extract<ShellFrame, { type: T }>;

export class RawClient {
  readonly socket: Socket;
  /** every frame of the agent so far, in order */
  readonly frames: ShellFrame[] = [];
  /** the agent has ended its side, or the connection is gone */
  ended = false;
  readonly #decoder = new RawFrameDecoder();
  readonly #waiting = new Set<() => void>();

  private constructor(socket: Socket) {
    this.socket = socket;
    socket.on("data", (chunk: Uint8Array) => {
      this.#decoder.push(chunk);
      for (let raw = this.#decoder.next(); raw !== undefined; raw = this.#decoder.next())
        this.frames.push(decodeFrame({ type: raw.type, payload: raw.payload.slice() }));
      this.#changed();
    });
    const end = () => {
      this.ended = true;
      this.#changed();
    };
    socket.on("end", end);
    socket.on("close", end);
    socket.on("error", () => socket.destroy());
  }

  /** Connects to the shell port of an agent on Unix sockets in `directory`. */
  static connect(directory: string): Promise<RawClient> {
    return new Promise((resolve, reject) => {
      const path = join(directory, unixSocketName(ports.shell));
      const socket = createConnection({ path, allowHalfOpen: true });
      socket.once("error", reject);
      socket.once("connect", () => {
        socket.off("error", reject);
        resolve(new RawClient(socket));
      });
    });
  }

  /** Connects and sends a start frame, without waiting for an answer. */
  static start(directory: string, start: ShellStart): Promise<RawClient> {
    return RawClient.startWith(directory, encodeStart(start));
  }

  /** Connects and sends a start frame with this payload, right or wrong, without waiting for an answer. */
  static async startWith(directory: string, payload: string | Uint8Array): Promise<RawClient> {
    const client = await RawClient.connect(directory);
    client.sendRaw(1, payload);
    return client;
  }

  send(frame: ShellFrame): void {
    this.socket.write(encodeFrame(frame));
  }

  /** A frame of any type and payload, also one that no client may send. */
  sendRaw(type: number, payload: Uint8Array | string = ""): void {
    this.socket.write(encodeRawFrame(type, typeof payload === "string" ? Buffer.from(payload) : payload));
  }

  sendBytes(bytes: Uint8Array): void {
    this.socket.write(bytes);
  }

  stdin(bytes: Uint8Array | string): void {
    this.send({ type: "stdin", bytes: Buffer.from(bytes) });
  }

  /** types of the frames so far, runs of the same output type counted once */
  get order(): string[] {
    const types = this.frames.map(({ type }) => type);
    return types.filter((type, index) => type !== types[index - 1] || (type !== "stdout" && type !== "stderr"));
  }

  get stdout(): Buffer {
    return this.#bytesOf("stdout");
  }

  get stderr(): Buffer {
    return this.#bytesOf("stderr");
  }

  /** credit granted so far, in bytes */
  get granted(): number {
    return this.#all("window").reduce((sum, { bytes }) => sum + bytes, 0);
  }

  /** Bytes of a frame that was cut; not 0 after the end means that the agent broke off within one. */
  get pendingBytes(): number {
    return this.#decoder.pendingBytes;
  }

  /** Resolves once the condition holds; it is looked at again after every arrival. Rejects with what had arrived. */
  async until(condition: () => boolean, timeoutMs = defaultTimeoutMs): Promise<void> {
    if (condition()) return;
    await new Promise<void>((resolve, reject) => {
      const look = () => {
        if (!condition() && !this.ended) return;
        clearTimeout(timer);
        this.#waiting.delete(look);
        if (condition()) resolve();
        else reject(new Error(`the connection ended first; got ${this.#summary()}`));
      };
      const timer = setTimeout(() => {
        this.#waiting.delete(look);
        reject(new Error(`nothing of the kind within ${timeoutMs} ms; got ${this.#summary()}`));
      }, timeoutMs);
      this.#waiting.add(look);
    });
  }

  /** The first frame of a type, as soon as there is one. */
  async frame<T extends ShellFrame["type"]>(type: T, timeoutMs?: number): Promise<FrameOf<T>> {
    await this.until(() => this.#all(type).length > 0, timeoutMs);
    return this.#all(type)[0] as FrameOf<T>;
  }

  async started(): Promise<this> {
    await this.frame("started");
    return this;
  }

  /** Resolves when standard output holds the text. */
  async output(text: string, timeoutMs?: number): Promise<void> {
    await this.until(() => this.stdout.includes(text), timeoutMs);
  }

  /** Resolves when the agent has ended the connection. */
  async end(timeoutMs?: number): Promise<this> {
    await this.until(() => this.ended, timeoutMs);
    return this;
  }

  /** Waits for the exit frame and the end of the connection. Returns the exit code. */
  async exit(timeoutMs?: number): Promise<number> {
    await this.end(timeoutMs);
    const { code } = await this.frame("exit");
    this.socket.destroy();
    return code;
  }

  /** Goes away without a word. */
  vanish(): void {
    this.socket.destroy();
  }

  #all<T extends ShellFrame["type"]>(type: T): FrameOf<T>[] {
    return this.frames.filter((frame): frame is FrameOf<T> => frame.type === type);
  }

  #bytesOf(type: "stdout" | "stderr"): Buffer {
    return Buffer.concat(this.#all(type).map(({ bytes }) => bytes));
  }

  #changed(): void {
    for (const look of [...this.#waiting]) look();
  }

  #summary(): string {
    return JSON.stringify({
      order: this.order,
      stdout: this.stdout.subarray(0, 500).toString(),
      stderr: this.stderr.subarray(0, 500).toString(),
      error: this.#all("error")[0]?.message,
    });
  }
}

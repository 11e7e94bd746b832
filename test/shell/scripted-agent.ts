/** The other end of a client under test: a server on the shell port that sends exactly what a test tells it to. */
import { mkdtempSync, rmSync } from "node:fs";
import { createServer, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ports, unixSocketName } from "#protocol/ports.ts";
import {
  encodeFrame,
  encodeRawFrame,
  type RawFrame,
  RawFrameDecoder,
  type ShellFrame,
} from "#protocol/shell/frames.ts";

/** One connection, seen from the agent. */
export class ScriptedPeer {
  readonly received: RawFrame[] = [];
  ended = false;
  readonly #decoder = new RawFrameDecoder();

  constructor(readonly socket: Socket) {
    socket.on("data", (chunk: Uint8Array) => {
      this.#decoder.push(chunk);
      for (let raw = this.#decoder.next(); raw !== undefined; raw = this.#decoder.next())
        this.received.push({ type: raw.type, payload: raw.payload.slice() });
    });
    const end = () => {
      this.ended = true;
    };
    socket.on("end", end);
    socket.on("close", end);
    socket.on("error", () => socket.destroy());
  }

  send(...frames: ShellFrame[]): void {
    this.socket.write(Buffer.concat(frames.map(encodeFrame)));
  }

  sendRaw(type: number, payload: Uint8Array | string = ""): void {
    this.socket.write(encodeRawFrame(type, Buffer.from(payload)));
  }

  sendBytes(bytes: Uint8Array): void {
    this.socket.write(bytes);
  }

  /** payload sizes of the stdin frames so far */
  get stdinSizes(): number[] {
    return this.received.filter(({ type }) => type === 2).map(({ payload }) => payload.length);
  }

  get stdinBytes(): number {
    return this.stdinSizes.reduce((sum, size) => sum + size, 0);
  }
}

export class ScriptedAgent implements AsyncDisposable {
  /** `unix:DIR` */
  readonly target: string;
  readonly #directory = mkdtempSync(join(tmpdir(), "vmapp-scripted-"));
  readonly #peers: ScriptedPeer[] = [];
  readonly #server = createServer({ allowHalfOpen: true }, (socket) => {
    const peer = new ScriptedPeer(socket);
    this.#peers.push(peer);
    this.script(peer);
  });

  /** @param script runs for each connection as it opens */
  constructor(readonly script: (peer: ScriptedPeer) => void) {
    this.target = `unix:${this.#directory}`;
    this.#server.listen(join(this.#directory, unixSocketName(ports.shell)));
  }

  /** the last connection */
  get peer(): ScriptedPeer {
    const peer = this.#peers.at(-1);
    if (peer === undefined) throw new Error("nobody has connected");
    return peer;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const { socket } of this.#peers) socket.destroy();
    await new Promise((resolve) => this.#server.close(resolve));
    rmSync(this.#directory, { recursive: true, force: true });
  }
}

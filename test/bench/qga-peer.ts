/** qemu-guest-agent as a peer: one JSON line a command on a Unix socket, bytes as base64 inside it. */
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { createConnection, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** what one command carries; of 64 KiB, 512 KiB, 4 MiB and 16 MiB the fastest to read with, and as good as any to write */
const pieceBytes = 64 * 1024;

export class QgaPeer {
  /** what is missing on this machine, or undefined */
  static readonly lacking =
    Bun.which("qemu-ga", { PATH: `${process.env.PATH}:/usr/sbin` }) === null
      ? "qemu-guest-agent was left out: it is not installed (apt-get install qemu-guest-agent)"
      : undefined;

  readonly #directory: string;
  readonly #child: Bun.Subprocess;
  readonly #socket: Socket;
  #pieces: string[] = [];
  #answer: ((line: string) => void) | undefined;

  private constructor(directory: string, child: Bun.Subprocess, socket: Socket) {
    this.#directory = directory;
    this.#child = child;
    this.#socket = socket;
    socket.setEncoding("utf8");
    socket.on("data", (text: string) => {
      const end = text.indexOf("\n");
      this.#pieces.push(end < 0 ? text : text.slice(0, end));
      if (end < 0) return;
      const line = this.#pieces.join("");
      this.#pieces = [];
      this.#answer?.(line);
    });
  }

  static async start(): Promise<QgaPeer> {
    const directory = mkdtempSync(join(tmpdir(), "vmapp-qga-"));
    const path = join(directory, "socket");
    const child = Bun.spawn(
      ["qemu-ga", "-m", "unix-listen", "-p", path, "-t", directory, "-f", join(directory, "pid")],
      { stdio: ["ignore", "ignore", "ignore"], env: { ...process.env, PATH: `${process.env.PATH}:/usr/sbin` } },
    );
    for (const deadline = performance.now() + 5_000; !existsSync(path); ) {
      if (performance.now() > deadline) throw new Error("qemu-ga did not listen within 5 s");
      await Bun.sleep(5);
    }
    const socket = createConnection(path);
    await new Promise<void>((resolve, reject) => {
      socket.once("connect", resolve);
      socket.once("error", reject);
    });
    return new QgaPeer(directory, child, socket);
  }

  async call<T>(execute: string, args: object): Promise<T> {
    const line = new Promise<string>((resolve) => {
      this.#answer = resolve;
    });
    this.#socket.write(`${JSON.stringify({ execute, arguments: args })}\n`);
    const answer = JSON.parse(await line) as { return?: T; error?: { desc: string } };
    if (answer.error !== undefined) throw new Error(`${execute}: ${answer.error.desc}`);
    return answer.return as T;
  }

  /** Runs a command and polls until it has ended, which is all the agent offers. */
  async exec(path: string, arg: readonly string[]): Promise<number> {
    const { pid } = await this.call<{ pid: number }>("guest-exec", { path, arg, "capture-output": true });
    for (;;) {
      const status = await this.call<{ exited: boolean; exitcode?: number }>("guest-exec-status", { pid });
      if (status.exited) return status.exitcode ?? -1;
    }
  }

  async read(path: string): Promise<Buffer> {
    const handle = await this.call<number>("guest-file-open", { path, mode: "r" });
    const pieces: Buffer[] = [];
    for (;;) {
      const piece = await this.call<{ "buf-b64": string; eof: boolean }>("guest-file-read", {
        handle,
        count: pieceBytes,
      });
      pieces.push(Buffer.from(piece["buf-b64"], "base64"));
      if (piece.eof) break;
    }
    await this.call("guest-file-close", { handle });
    return Buffer.concat(pieces);
  }

  async write(path: string, bytes: Uint8Array): Promise<void> {
    const handle = await this.call<number>("guest-file-open", { path, mode: "w" });
    for (let offset = 0; offset < bytes.length; offset += pieceBytes) {
      const piece = Buffer.from(bytes.subarray(offset, offset + pieceBytes)).toString("base64");
      await this.call("guest-file-write", { handle, "buf-b64": piece });
    }
    await this.call("guest-file-close", { handle });
  }

  async stop(): Promise<void> {
    this.#socket.destroy();
    this.#child.kill();
    await this.#child.exited;
    rmSync(this.#directory, { recursive: true, force: true });
  }
}

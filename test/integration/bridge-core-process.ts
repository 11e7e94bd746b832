/** Starts an app core as a process, and speaks to it in lines as a host does. */
import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { LineDecoder } from "#protocol/bridge/lines.ts";

export type Message = Record<string, unknown> & { t?: string };

const coreSource = new URL("./bridge-core.ts", import.meta.url).pathname;

export interface CoreProcess {
  readonly directory: string;
  readonly socketPath: string;
  readonly ended: Promise<number | string>;
  /** what it has written on its standard error */
  log(): string;
  connect(): Promise<HostLines>;
  stop(): Promise<void>;
}

export async function startCore({
  command = [process.execPath, coreSource],
  env = {},
  directory = mkdtempSync(join(tmpdir(), "vmapp-core-")),
}: {
  command?: readonly string[];
  env?: Record<string, string>;
  directory?: string;
} = {}): Promise<CoreProcess> {
  const socketPath = join(directory, "run", "app.sock");
  const [program, ...args] = command as [string, ...string[]];
  const child = spawn(program, args, {
    env: { ...process.env, VMAPP_SOCKET: socketPath, VMAPP_DATA: join(directory, "data"), ...env },
    stdio: ["ignore", "inherit", "pipe"],
  });
  let logged = "";
  child.stderr.on("data", (chunk: Buffer) => {
    logged += chunk.toString();
  });
  const ended = new Promise<number | string>((resolve) =>
    child.once("exit", (code, signal) => resolve(signal ?? code ?? -1)),
  );
  const hosts: HostLines[] = [];
  const deadline = Date.now() + 10_000;
  for (;;) {
    if (existsSync(socketPath)) {
      const probe = await HostLines.connect(socketPath).catch(() => undefined);
      if (probe !== undefined) {
        hosts.push(probe);
        break;
      }
    }
    if (Date.now() > deadline) throw new Error(`the core does not listen:\n${logged}`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  return {
    directory,
    socketPath,
    ended,
    log: () => logged,
    connect: async () => {
      // The first connection is the one that found the core listening.
      const first = hosts.length === 1 && !hosts[0]?.taken ? hosts[0] : undefined;
      const host = first ?? (await HostLines.connect(socketPath));
      host.taken = true;
      if (first === undefined) hosts.push(host);
      return host;
    },
    stop: async () => {
      for (const host of hosts) host.close();
      child.kill("SIGKILL");
      await ended;
      rmSync(directory, { recursive: true, force: true });
    },
  };
}

/** A host that speaks in lines and remembers what it hears. */
export class HostLines {
  taken = false;
  /** every line that came, as text */
  readonly lines: string[] = [];
  readonly messages: Message[] = [];
  readonly ended: Promise<void>;
  readonly #decoder = new LineDecoder(64 * 1024 * 1024);
  readonly #taken = new Set<Message>();
  #wake: (() => void)[] = [];

  constructor(readonly socket: Socket) {
    socket.on("error", () => {});
    socket.on("data", (chunk: Buffer) => {
      this.#decoder.push(chunk);
      for (let line = this.#decoder.next(); line !== undefined; line = this.#decoder.next()) {
        const text = Buffer.from(line).toString();
        this.lines.push(text);
        this.messages.push(JSON.parse(text));
      }
      for (const wake of this.#wake.splice(0)) wake();
    });
    this.ended = new Promise((resolve) => socket.once("close", () => resolve()));
  }

  static connect(path: string): Promise<HostLines> {
    return new Promise((resolve, reject) => {
      const socket = connect(path);
      socket.once("error", reject);
      socket.once("connect", () => resolve(new HostLines(socket)));
    });
  }

  raw(bytes: string | Uint8Array): void {
    this.socket.write(bytes);
  }

  send(message: Message): void {
    this.raw(`${JSON.stringify(message)}\n`);
  }

  /** The first message not yet taken that matches; waits for it. */
  async next(matches: (message: Message) => boolean, what = "a message", timeoutMs = 4_000): Promise<Message> {
    const deadline = Date.now() + timeoutMs;
    for (;;) {
      const found = this.messages.find((message) => !this.#taken.has(message) && matches(message));
      if (found !== undefined) {
        this.#taken.add(found);
        return found;
      }
      const left = deadline - Date.now();
      if (left <= 0) throw new Error(`waited for ${what}, got ${this.lines.slice(-5).join("\n").slice(0, 2000)}`);
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, left);
        this.#wake.push(() => {
          clearTimeout(timer);
          resolve();
        });
      });
    }
  }

  /** Says `init` and waits for `ready`. */
  async start(init: Partial<Message> = {}): Promise<void> {
    this.send({
      t: "init",
      app: { id: "dev.vmapp.test", name: "Test", version: "1.2.3" },
      platform: { os: "linux", arch: "x64" },
      folders: {},
      data: "/data",
      ...init,
    });
    await this.next(({ t }) => t === "ready", "ready");
  }

  async invoke(id: number, channel: string, ...args: unknown[]): Promise<Message> {
    this.send({ t: "invoke", id, win: 1, channel, args });
    return this.next((message) => message.t === "result" && message.id === id, `the result of ${channel}`);
  }

  close(): void {
    this.socket.destroy();
  }
}

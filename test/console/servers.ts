/** Console servers of this checkout for tests, each reached the way its clients reach it. */
import { type ChildProcessByStdio, spawn } from "node:child_process";
import { createConnection, type Socket } from "node:net";
import { join } from "node:path";
import type { Readable, Writable } from "node:stream";
import { ports, unixSocketName } from "#protocol/ports.ts";
import { RawPeer } from "./raw-peer.ts";

const program = join(import.meta.dirname, "../../init/main.ts");

/** what starts a server on standard input and output */
export const serverCommand: readonly string[] = [process.execPath, program, "console"];

export interface StdioServer extends AsyncDisposable {
  readonly peer: RawPeer;
  readonly pid: number;
  /** what it has logged so far */
  log(): string;
  /** Closes the pipe that it writes to. */
  closeOutput(): void;
  /** exit status, once it has ended */
  readonly ended: Promise<number | string>;
}

/** Starts one; disposing closes its input and waits, and kills it when it stays. */
export function stdioServer({
  command = serverCommand,
  cwd,
  env,
}: {
  command?: readonly string[];
  cwd?: string;
  env?: NodeJS.ProcessEnv;
} = {}): StdioServer {
  const [file = "", ...args] = command;
  const child: ChildProcessByStdio<Writable, Readable, Readable> = spawn(file, args, {
    stdio: ["pipe", "pipe", "pipe"],
    ...(cwd === undefined ? {} : { cwd }),
    ...(env === undefined ? {} : { env }),
  });
  let log = "";
  child.stderr.on("data", (chunk: Buffer) => {
    log += chunk.toString();
  });
  const ended = new Promise<number | string>((resolve) =>
    child.on("exit", (code, signal) => resolve(signal ?? code ?? -1)),
  );
  return {
    peer: new RawPeer(child.stdout, child.stdin),
    pid: child.pid ?? -1,
    log: () => log,
    closeOutput: () => void child.stdout.destroy(),
    ended,
    async [Symbol.asyncDispose]() {
      child.stdin.end();
      const patience = setTimeout(() => child.kill("SIGKILL"), 3000);
      await ended;
      clearTimeout(patience);
    },
  };
}

export interface SocketPeer extends Disposable {
  readonly peer: RawPeer;
  readonly socket: Socket;
}

/** Connects to the console of an agent that listens in `directory`. */
export async function socketPeer(directory: string): Promise<SocketPeer> {
  const socket = createConnection({ path: join(directory, unixSocketName(ports.console)), allowHalfOpen: true });
  await new Promise<void>((resolve, reject) => {
    socket.once("connect", resolve);
    socket.once("error", reject);
  });
  return { peer: new RawPeer(socket, socket), socket, [Symbol.dispose]: () => void socket.destroy() };
}

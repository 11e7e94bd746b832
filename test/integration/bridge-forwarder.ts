/** A real forwarder between two Unix sockets, and the ends that the tests hold. */
import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { createServer, connect as netConnect, type Server, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

const copyingPath = new URL("./bridge-copying-forwarder.ts", import.meta.url).pathname;
const initPath = new URL("../../init/main.ts", import.meta.url).pathname;

export interface Forwarder {
  readonly pid: number;
  readonly hostPath: string;
  readonly appPath: string;
  /** everything that it has logged */
  log(): string;
  /** resolves once it has logged this */
  logged(text: string): Promise<void>;
  /** open descriptors of the process */
  descriptors(): number;
  /** resident memory of the process, in KiB */
  residentKib(): number;
  /** processor time of the process so far, in hundredths of a second */
  processorTicks(): number;
  /** resolves with the exit code or the signal */
  readonly ended: Promise<number | string>;
  /** connects as the host does */
  connect(): Promise<Socket>;
  /** starts to listen as an app does, and hands each connection over */
  listen(onConnection: (socket: Socket) => void): Promise<Server>;
  stop(): Promise<void>;
}

/** `copies`: as it runs over vsock, copying what goes to the host. */
export async function startForwarder({ copies = false } = {}): Promise<Forwarder> {
  const directory = mkdtempSync(join(tmpdir(), "vmapp-bridge-"));
  const hostPath = join(directory, "1024.sock");
  const appPath = join(directory, "app.sock");
  const command = copies
    ? [copyingPath, hostPath, appPath]
    : [initPath, "bridge", "--listen", `unix:${directory}`, "--socket", appPath];
  const child = spawn(process.execPath, command, { stdio: ["ignore", "inherit", "pipe"] });
  let logged = "";
  child.stderr.on("data", (chunk: Buffer) => {
    logged += chunk.toString();
  });
  const ended = new Promise<number | string>((resolve) =>
    child.once("exit", (code, signal) => resolve(signal ?? code ?? -1)),
  );
  const sockets = new Set<Socket>();
  const servers = new Set<Server>();
  const keep = (socket: Socket): Socket => {
    sockets.add(socket);
    socket.on("error", () => {});
    socket.once("close", () => sockets.delete(socket));
    return socket;
  };
  await waitUntil(() => logged.includes("listening") && existsSync(hostPath), "the forwarder to listen");
  const pid = child.pid as number;
  return {
    pid,
    hostPath,
    appPath,
    ended,
    log: () => logged,
    logged: (text) => waitUntil(() => logged.includes(text), `the log to say ${text}`),
    descriptors: () => readdirSync(`/proc/${pid}/fd`).length,
    residentKib: () => Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1]),
    processorTicks: () => {
      const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1]?.split(" ") ?? [];
      return Number(fields[11]) + Number(fields[12]);
    },
    connect: () =>
      new Promise((resolve, reject) => {
        const socket = netConnect({ path: hostPath, allowHalfOpen: true });
        socket.once("error", reject);
        socket.once("connect", () => resolve(keep(socket)));
      }),
    listen: (onConnection) =>
      new Promise((resolve, reject) => {
        const server = createServer({ allowHalfOpen: true }, (socket) => onConnection(keep(socket)));
        servers.add(server);
        server.once("error", reject);
        server.listen(appPath, () => resolve(server));
      }),
    stop: async () => {
      for (const socket of sockets) socket.destroy();
      for (const server of servers) server.close();
      await end(child, ended);
      rmSync(directory, { recursive: true, force: true });
    },
  };
}

async function end(child: ChildProcess, ended: Promise<unknown>): Promise<void> {
  child.kill("SIGKILL");
  await ended;
}

export async function waitUntil(condition: () => boolean, what: string, timeoutMs = 10_000): Promise<void> {
  const deadline = Date.now() + timeoutMs;
  while (!condition()) {
    if (Date.now() > deadline) throw new Error(`waited ${timeoutMs} ms for ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

/** All bytes up to the other end's EOF; rejects on a reset. */
export function readToEnd(socket: Socket): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    socket.on("data", (chunk: Buffer) => chunks.push(chunk));
    socket.once("end", () => resolve(Buffer.concat(chunks)));
    socket.once("error", reject);
    socket.once("close", () => reject(new Error("closed without an end")));
    socket.resume();
  });
}

/** Writes and waits until the bytes are handed to the system. */
export function write(socket: Socket, bytes: Uint8Array | string): Promise<void> {
  return new Promise((resolve, reject) => {
    socket.write(bytes, (error) => (error ? reject(error) : resolve()));
  });
}

/** Reads on and resolves once the other end has closed or reset the connection. */
export function closed(socket: Socket): Promise<void> {
  socket.once("end", () => socket.destroy());
  socket.resume();
  return socket.destroyed ? Promise.resolve() : new Promise((resolve) => socket.once("close", () => resolve()));
}

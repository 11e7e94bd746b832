/** The control service on a Unix socket of its own, for tests. */
import { mkdtemp, rm } from "node:fs/promises";
import type { Server, Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type ControlOptions, createControlService } from "#agent/control/service.ts";
import { listen } from "#agent/listener.ts";
import { ControlConnection, type OpenOptions } from "#host/clients/control/connection.ts";
import { dial } from "#host/transport/dial.ts";
import type { Address } from "#host/transport/target.ts";
import { ports, unixSocketName } from "#protocol/ports.ts";
import type { Log } from "#sys/log.ts";
import { RawPeer } from "./raw-peer.ts";

export interface LogLine {
  readonly level: "info" | "warn" | "error";
  readonly message: string;
  readonly fields: unknown;
}

export class Daemon implements AsyncDisposable {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  readonly #connections: ControlConnection[] = [];

  private constructor(
    /** directory with the socket; removed at the end */
    readonly directory: string,
    /** an empty directory for the test's files; removed at the end */
    readonly root: string,
    readonly logLines: LogLine[],
    /** one entry for each time that PID 1 would have been told of a program */
    readonly offers: string[],
    server: Server,
  ) {
    this.#server = server;
    server.on("connection", (socket: Socket) => {
      this.#sockets.add(socket);
      socket.once("close", () => this.#sockets.delete(socket));
    });
  }

  static async start(options: Partial<ControlOptions> = {}): Promise<Daemon> {
    const directory = await mkdtemp(join(tmpdir(), "vmapp-control-"));
    const root = await mkdtemp(join(tmpdir(), "vmapp-files-"));
    const logLines: LogLine[] = [];
    const record =
      (level: LogLine["level"]): Log["info"] =>
      (message, fields) =>
        logLines.push({ level, message, fields });
    const log: Log = { info: record("info"), warn: record("warn"), error: record("error") };
    const offers: string[] = [];
    const updates = { directory: join(directory, "update"), base: "image", announce: () => offers.push("offer") };
    const service = createControlService({ log, caps: () => [], executable: "/etc/hostname", updates, ...options });
    const server = await listen({ service, target: { kind: "unix", directory }, log });
    return new Daemon(directory, root, logLines, offers, server);
  }

  get target(): Address {
    return { kind: "unix", directory: this.directory };
  }

  get socketPath(): string {
    return join(this.directory, unixSocketName(ports.control));
  }

  /** where programs that were uploaded are kept */
  get updateDirectory(): string {
    return join(this.directory, "update");
  }

  /** connections that the daemon holds */
  get connectionCount(): number {
    return this.#sockets.size;
  }

  /** A connection of our own client, closed with the daemon. */
  async connect(options: OpenOptions = {}): Promise<ControlConnection> {
    const control = await ControlConnection.open(await dial({ target: this.target, port: ports.control }), options);
    this.#connections.push(control);
    return control;
  }

  /** A bare connection, nothing sent. */
  raw(): Promise<RawPeer> {
    return RawPeer.connect(this.socketPath);
  }

  /** A bare connection whose handshake is done. */
  async greeted(): Promise<RawPeer> {
    const peer = await this.raw();
    peer.send({ v: 1, t: "hello" });
    await peer.reply();
    return peer;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const connection of this.#connections) connection.close();
    for (const socket of this.#sockets) socket.destroy();
    await new Promise<void>((resolve) => this.#server.close(() => resolve()));
    await rm(this.directory, { recursive: true, force: true });
    await rm(this.root, { recursive: true, force: true });
  }
}

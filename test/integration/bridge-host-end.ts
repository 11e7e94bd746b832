/** The host end of the bridge, and a core made of lines at the other end of its connections. */
import { expect } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer, type Server, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { BridgeError } from "#host/clients/bridge/error.ts";
import { type AppOptions, AppSession } from "#host/clients/bridge/session.ts";
import { dial } from "#host/transport/dial.ts";
import { HostLines } from "./bridge-core-process.ts";

/** It listens where the host end expects a guest's bridge. */
class LineCore {
  readonly directory = mkdtempSync(join(tmpdir(), "vmapp-host-end-"));
  readonly connections: HostLines[] = [];
  #server: Server | undefined;

  async listen(onConnection: (connection: HostLines) => void = () => {}): Promise<this> {
    this.#server = createServer((socket: Socket) => {
      const connection = new HostLines(socket);
      this.connections.push(connection);
      onConnection(connection);
    });
    await new Promise<void>((resolve) => this.#server?.listen(join(this.directory, "1024.sock"), resolve));
    return this;
  }

  stopListening(): void {
    this.#server?.close();
    rmSync(join(this.directory, "1024.sock"), { force: true });
  }

  stop(): void {
    for (const connection of this.connections) connection.close();
    this.stopListening();
    rmSync(this.directory, { recursive: true, force: true });
  }
}

/** The cores and sessions of a test file; `stop` ends those that there are. */
export class HostEnds {
  readonly #cores: LineCore[] = [];
  readonly #sessions: AppSession[] = [];

  /** A core that does not listen yet. */
  absentCore(): LineCore {
    const core = new LineCore();
    this.#cores.push(core);
    return core;
  }

  newCore(onConnection?: (connection: HostLines) => void): Promise<LineCore> {
    return this.absentCore().listen(onConnection);
  }

  open(core: LineCore, options: AppOptions = {}): Promise<AppSession> {
    return AppSession.open(
      (signal) => dial({ target: { kind: "unix", directory: core.directory }, port: 1024, signal }),
      {
        timeoutMs: 4000,
        ...options,
        onSession: (session) => {
          this.#sessions.push(session);
          options.onSession?.(session);
        },
      },
    );
  }

  /** A session whose core is ready, and the core's end of it. */
  async ready(options: AppOptions = {}): Promise<{ session: AppSession; core: HostLines; server: LineCore }> {
    const server = await this.newCore((connection) => connection.raw('{"t":"ready"}\n'));
    const session = await this.open(server, options);
    const core = server.connections[0] as HostLines;
    await core.next(({ t }) => t === "init");
    return { session, core, server };
  }

  async stop(): Promise<void> {
    for (const session of this.#sessions.splice(0)) await session.close();
    for (const core of this.#cores.splice(0)) core.stop();
  }
}

export async function expectAnswers(session: AppSession, core: HostLines): Promise<void> {
  const result = session.invoke("still-here");
  const { id } = await core.next(({ channel }) => channel === "still-here");
  core.send({ t: "result", id, result: "yes" });
  expect(await result).toBe("yes");
}

export async function failure(promise: Promise<unknown>): Promise<BridgeError> {
  const error = await promise.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  if (!(error instanceof BridgeError)) throw new Error(`no BridgeError but ${String(error)}`);
  return error;
}

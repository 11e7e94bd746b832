/**
 * A scripted daemon that speaks stock v1 and nothing else: no codes, no extensions, escaped slashes, updates below 10 MiB.
 * What it answers can be replaced by the test, down to the bytes.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { createServer, type Server, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Connection } from "#host/transport/connection.ts";
import { dial } from "#host/transport/dial.ts";
import type { Address } from "#host/transport/target.ts";
import { ports, unixSocketName } from "#protocol/ports.ts";
import { frame, type Json, RawPeer } from "./raw-peer.ts";

export interface StockScript {
  /** fields of the hello beside the stock ones; or what is to happen instead of it */
  readonly hello?: Json | ((peer: RawPeer, hello: Json) => Promise<void> | void);
  /** answers a request in place of the stock daemon; false leaves it to that */
  readonly answer?: (peer: RawPeer, request: Json) => Promise<boolean> | boolean;
}

const updateLimit = 10 * 1024 * 1024;

/** As the original prints: slashes escaped. */
export function stockFrame(message: Json): Buffer {
  return frame(JSON.stringify(message).replaceAll("/", "\\/"));
}

export class StockDaemon implements AsyncDisposable {
  readonly directory = mkdtempSync(join(tmpdir(), "vmapp-stock-"));
  readonly files = new Map<string, Buffer>();
  readonly requests: Json[] = [];
  readonly hellos: Json[] = [];
  readonly programs: Buffer[] = [];
  readonly #sockets = new Set<Socket>();
  readonly #server: Server;
  #script: StockScript;

  constructor(script: StockScript = {}) {
    this.#script = script;
    this.#server = createServer({ allowHalfOpen: true }, (socket) => {
      this.#sockets.add(socket);
      socket.on("error", () => {});
      socket.once("close", () => this.#sockets.delete(socket));
      void this.#serve(RawPeer.over(socket)).catch(() => socket.destroy());
    });
  }

  async listen(): Promise<this> {
    await new Promise<void>((resolve) =>
      this.#server.listen(join(this.directory, unixSocketName(ports.control)), resolve),
    );
    return this;
  }

  /** Stops to listen and drops every connection; the files stay. */
  async stop(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    await new Promise<void>((resolve) => this.#server.close(() => resolve()));
  }

  set script(script: StockScript) {
    this.#script = script;
  }

  get target(): Address {
    return { kind: "unix", directory: this.directory };
  }

  readonly dial = (): Promise<Connection> => dial({ target: this.target, port: ports.control });

  get connectionCount(): number {
    return this.#sockets.size;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
    rmSync(this.directory, { recursive: true, force: true });
  }

  async #serve(peer: RawPeer): Promise<void> {
    const hello = await peer.reply(60_000);
    if (hello === undefined) return;
    this.hellos.push(hello);
    if (typeof this.#script.hello === "function") {
      await this.#script.hello(peer, hello);
      return;
    }
    peer.sendBytes(
      stockFrame({
        v: 1,
        t: "hello",
        name: "vphoned",
        caps: ["hid", "devmode", "file", "keychain"],
        ios: "18.6.2",
        ...this.#script.hello,
      }),
    );
    for (;;) {
      const request = await peer.reply(60_000);
      if (request === undefined) break;
      this.requests.push(request);
      if ((await this.#script.answer?.(peer, request)) === true) continue;
      if ((await this.#stock(peer, request)) === "restart") break;
    }
    peer.socket.end();
  }

  async #stock(peer: RawPeer, request: Json): Promise<"restart" | undefined> {
    const { id, t } = request;
    const send = (fields: Json): void => peer.sendBytes(stockFrame({ v: 1, id, ...fields }));
    const path = String(request.path);
    switch (t) {
      case "ping":
        send({ t: "pong" });
        return undefined;
      case "version":
        send({ t: "version", hash: "abc1234" });
        return undefined;
      case "file_put": {
        const content = await peer.take(Number(request.size), 60_000);
        if (content === undefined) return undefined;
        this.files.set(path, content);
        send({ t: "ok" });
        return undefined;
      }
      case "file_get": {
        const content = this.files.get(path);
        if (content === undefined) send({ t: "err", msg: "open failed: No such file or directory" });
        else {
          send({ t: "file_data", size: content.length });
          peer.sendBytes(content);
        }
        return undefined;
      }
      case "file_list": {
        const folder = path.endsWith("/") ? path : `${path}/`;
        const below = [...this.files.keys()]
          .filter((file) => file.startsWith(folder))
          .map((file) => file.slice(folder.length));
        const entry = { link_target_dir: false, size: 1, perm: "644", mtime: 1_700_000_000 };
        const names = new Map(below.map((name) => [name.split("/")[0], name.includes("/") ? "dir" : "file"]));
        if (names.size === 0) send({ t: "err", msg: "The file doesn’t exist." });
        else send({ t: "ok", entries: [...names].map(([name, type]) => ({ name, type, ...entry })) });
        return undefined;
      }
      case "file_mkdir":
        send({ t: "ok" });
        return undefined;
      case "file_delete":
        send(this.files.delete(path) ? { t: "ok" } : { t: "err", msg: "No such file" });
        return undefined;
      case "update": {
        const size = Number(request.size);
        if (size <= 0 || size >= updateLimit) {
          // As the original: the raw bytes are left in the stream.
          send({ t: "err", msg: "update failed" });
          return undefined;
        }
        const program = await peer.take(size, 60_000);
        if (program === undefined) return undefined;
        this.programs.push(program);
        send({ t: "ok", msg: "updated, restarting" });
        return "restart";
      }
      default:
        send({ t: "err", msg: `unknown type: ${String(t)}` });
        return undefined;
    }
  }
}

/**
 * One control connection (companion §11.2): first a hello, then requests, each handled and answered before the next is read.
 * Connections share nothing here, so a silent or slow one delays no other.
 */
import type { Socket } from "node:net";
import { ControlStreamError, type WireMessage } from "#protocol/control/message.ts";
import { planRaw, type RawLimits } from "#protocol/control/raw-size.ts";
import { ControlReader } from "#protocol/control/reader.ts";
import { parseRequest, type Request } from "#protocol/control/requests.ts";
import type { Log } from "#sys/log.ts";
import type { Peer } from "../service.ts";
import { judgeHello } from "./hello.ts";
import type { Reply, RequestBody } from "./reply.ts";
import { BrokenReplyError, systemFailure } from "./request-error.ts";
import { type ReplyFields, ReplyWriter } from "./writer.ts";

/** how long a connection that was given up may still read its last answer */
const lingerMs = 2_000;

export interface SessionContext {
  /** hash that the hello of this connection offered */
  readonly binHash: string | undefined;
}

export interface SessionOptions {
  readonly peer: Peer;
  readonly log: Log;
  readonly rawLimits: RawLimits;
  readonly hello: (binHash: string | undefined) => Promise<ReplyFields>;
  /** the hello was answered */
  readonly greeted: () => void;
  readonly handle: (request: Request, body: RequestBody, context: SessionContext) => Promise<Reply>;
}

/** Serves a connection from its first byte to its end. */
export function startSession(options: SessionOptions): RunningSession {
  const session = new Session(options);
  return { ended: session.run(), stop: () => session.stop(), breakOff: () => session.breakOff() };
}

export interface RunningSession {
  /** resolves, never rejects, when nothing more is served */
  readonly ended: Promise<void>;
  /** Ends the session once the request under way is answered. */
  stop(): void;
  /** Ends the session at once; an upload under way fails and is cleared away. */
  breakOff(): void;
}

type Verdict = "go on" | "close";

class Session {
  readonly #socket: Socket;
  readonly #reader: ControlReader;
  readonly #writer: ReplyWriter;
  #busy = false;
  #stopping = false;

  constructor(readonly options: SessionOptions) {
    const { socket } = options.peer;
    this.#socket = socket;
    this.#writer = new ReplyWriter(socket);
    this.#reader = new ControlReader({ pause: () => socket.pause(), resume: () => socket.resume() });
    socket.on("data", (chunk: Uint8Array) => this.#reader.push(chunk));
    socket.on("end", () => this.#reader.end());
    socket.on("close", () => this.#reader.end());
    socket.resume();
  }

  async run(): Promise<void> {
    try {
      const context = await this.#greet();
      if (context !== undefined) await this.#serve(context);
    } catch (error) {
      // A peer that breaks the protocol or goes away ends its own session and nothing else.
      if (!this.#socket.destroyed) {
        this.options.log.warn("control connection given up", {
          reason: error instanceof Error ? error.message : String(error),
        });
      }
    }
    this.#close();
  }

  /** The handshake. Undefined when the connection is not to be served. */
  async #greet(): Promise<SessionContext | undefined> {
    const message = await this.#reader.frame();
    if (message === undefined) return undefined;
    const outcome = judgeHello(message);
    switch (outcome.kind) {
      case "foreign":
        return undefined;
      case "refused":
        await this.#writer.frame(outcome.fields);
        return undefined;
      case "accepted":
        this.options.peer.spoke();
        await this.#writer.frame(await this.options.hello(outcome.binHash));
        this.options.greeted();
        return { binHash: outcome.binHash };
    }
  }

  stop(): void {
    this.#stopping = true;
    if (!this.#busy) this.#reader.end();
  }

  breakOff(): void {
    this.#stopping = true;
    this.#reader.end();
  }

  async #serve(context: SessionContext): Promise<void> {
    while (!this.#stopping) {
      const message = await this.#reader.frame();
      if (message === undefined) return;
      this.#busy = true;
      const verdict = await this.#exchange(message, context);
      this.#busy = false;
      if (verdict === "close") return;
    }
  }

  async #exchange(message: WireMessage, context: SessionContext): Promise<Verdict> {
    const echo = message.id === undefined ? {} : { id: message.id };
    const refuse = (code: string, msg: string, reason?: string): Promise<void> =>
      this.#writer.frame({ t: "err", ...echo, msg, code, reason });
    const plan = planRaw(message, this.options.rawLimits);
    if (plan.kind === "inadmissible") {
      await refuse(plan.code, `${String(message.t)}: bad size: expected an integer from 0 to ${plan.limit}`);
      return "close";
    }
    this.#reader.expectRaw(plan.bytes);
    const parsed = parseRequest(message);
    if (!parsed.ok) {
      await refuse(parsed.code, parsed.msg);
      return "go on";
    }
    let reply: Reply;
    try {
      reply = await this.options.handle(parsed.request, { size: plan.bytes, next: () => this.#reader.raw() }, context);
    } catch (error) {
      // The connection itself is over: there is nobody to tell.
      if (error instanceof ControlStreamError || this.#socket.destroyed) throw error;
      const { code, message: msg, reason } = systemFailure(parsed.request.t, error);
      await refuse(code, msg, reason);
      return "go on";
    }
    return this.#answer(reply, echo);
  }

  async #answer(reply: Reply, echo: { id?: unknown }): Promise<Verdict> {
    try {
      await this.#writer.frame({ ...reply.fields, ...echo });
      await reply.body?.((chunk) => this.#writer.bytes(chunk));
    } catch (error) {
      if (!(error instanceof BrokenReplyError)) throw error;
      this.options.log.warn("reply broken off", { reason: error.message });
      return "close";
    } finally {
      await reply.close?.();
    }
    if (reply.after !== undefined) {
      await this.#writer.flushed();
      reply.after();
    }
    return reply.last === true ? "close" : "go on";
  }

  /** Ends our direction, and lets the peer read what it was sent before the connection goes. */
  #close(): void {
    const socket = this.#socket;
    if (socket.destroyed) return;
    const timer = setTimeout(() => socket.destroy(), lingerMs);
    timer.unref();
    socket.once("close", () => clearTimeout(timer));
    socket.removeAllListeners("data");
    socket.on("data", () => {});
    socket.once("end", () => socket.destroy());
    socket.resume();
    socket.end(() => {
      if (socket.readableEnded) socket.destroy();
    });
  }
}

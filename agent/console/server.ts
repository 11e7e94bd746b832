/**
 * The answering end: takes a frame, answers it, takes the next. While a request is being answered frames are read on,
 * because a `stop` does not wait for a command that runs; up to the first that has to wait.
 */
import { match } from "ts-pattern";
import { ConsoleError, ErrorCode } from "#protocol/console/errors.ts";
import {
  decodeMessage,
  encodeMessage,
  type Message,
  MessageError,
  type Request,
  type ResultResponse,
} from "#protocol/console/message.ts";
import { FrameLimitError } from "#protocol/framing.ts";
import type { Log } from "#sys/log.ts";
import type { Channel } from "./channel.ts";
import type { Session } from "./session.ts";

/** The protocol's version, which is not the build's. */
const version = "1";

/** how often a peer is looked after while a request of it is under way, in milliseconds */
const peerWatchMs = 250;

/** How a channel ended: said so, closed between frames, or broken (the reason is logged). */
export type ChannelEnd = "quit" | "closed" | "broken";

export interface ServerOptions {
  readonly channel: Channel;
  readonly session: Session;
  readonly log: Log;
  /** called once the peer has sent a whole message */
  onSpoke?(): void;
}

/** Serves one channel until it ends; what the session held is released then. */
export async function serveConsole({ channel, session, log, onSpoke }: ServerOptions): Promise<ChannelEnd> {
  /** the request that is being answered, and a `start` that came after it */
  let underWay: Promise<void> = Promise.resolve();
  let startWaits = false;
  let ignored = 0;
  try {
    for (;;) {
      const payload = await channel.next();
      if (payload === undefined) {
        await underWay;
        return "closed";
      }
      onSpoke?.();
      const message = readMessage(payload);
      if (message instanceof MessageError) {
        if (message.id === undefined) {
          ignore(message.message);
          continue;
        }
        await underWay;
        await channel.send(encodeError(message.id, ErrorCode[message.refusal], message.message));
      } else if (message.kind === "request") {
        await underWay;
        underWay = answer(message);
      } else if (message.kind !== "notification") {
        ignore(`a response to ${message.id}, and a server asks nothing`);
      } else if (message.method === "start") {
        // Not waited for: what follows may be a stop. One is as good as many, so those that wait take no memory.
        if (startWaits) continue;
        startWaits = true;
        underWay = underWay.then(start);
      } else {
        if (message.method === "stop") session.interrupt();
        await underWay;
        if (message.method === "quit") return "quit";
        await session.stop();
      }
    }
  } catch (error) {
    log.warn("the channel is broken", { error: error instanceof Error ? error.message : String(error) });
    await underWay;
    return "broken";
  } finally {
    if (ignored > 1) log.warn("messages were ignored", { count: ignored });
    await session.end();
  }

  /** Only the first is told of at once: a client that goes on and on does not fill the log. */
  function ignore(reason: string): void {
    if (ignored++ === 0) log.warn("a message was ignored", { reason });
  }

  async function start(): Promise<void> {
    startWaits = false;
    try {
      await session.start();
    } catch (error) {
      log.warn("start failed", { error: error instanceof Error ? error.message : String(error) });
    }
  }

  async function answer(request: Request): Promise<void> {
    // Whatever has been read or is still to be read, a command of a peer that is gone has nobody to hear of it.
    const watch = setInterval(() => {
      if (channel.peerGone) session.interrupt();
    }, peerWatchMs);
    await channel.send(await performed(request).finally(() => clearInterval(watch)));
  }

  async function performed(request: Request): Promise<Uint8Array[]> {
    try {
      return encodeMessage(await perform(session, request));
    } catch (error) {
      if (error instanceof ConsoleError) return encodeError(request.id, error.code, error.message);
      const text = error instanceof Error ? error.message : String(error);
      const detail = error instanceof Error && !(error instanceof FrameLimitError) ? error.stack : undefined;
      log.error("a request failed", { method: request.method, error: detail ?? text });
      return encodeError(request.id, ErrorCode.internal, text);
    }
  }
}

function readMessage(payload: Uint8Array): Message | MessageError {
  try {
    return decodeMessage(payload);
  } catch (error) {
    if (error instanceof MessageError) return error;
    throw error;
  }
}

/** An error's message is cut to what a person reads: it may quote what the client sent. */
const maxErrorText = 64 * 1024;

function encodeError(id: bigint, code: number, message: string): Uint8Array[] {
  return encodeMessage({ kind: "error", id, error: { code, message: message.slice(0, maxErrorText) } });
}

async function perform(session: Session, request: Request): Promise<ResultResponse> {
  const { id } = request;
  return match(request)
    .returnType<Promise<ResultResponse> | ResultResponse>()
    .with({ method: "version" }, ({ method }) => ({ kind: "result", id, method, result: { version } }))
    .with({ method: "list_images" }, ({ method }) => ({ kind: "result", id, method, result: { images: [] } }))
    .with({ method: "build_image" }, () => {
      throw new ConsoleError("unsupportedImage", "this server builds no images");
    })
    .with({ method: "remove_image" }, () => {
      throw new ConsoleError("invalidParams", "this server has no images, so not this one");
    })
    .with({ method: "init" }, async ({ method, params }) => ({
      kind: "result",
      id,
      method,
      result: await session.init(params),
    }))
    .with({ method: "exec" }, async ({ method, params }) => ({
      kind: "result",
      id,
      method,
      result: await session.exec(params),
    }))
    .with({ method: "read" }, async ({ method, params }) => ({
      kind: "result",
      id,
      method,
      result: await session.read(params),
    }))
    .with({ method: "write" }, async ({ method, params }) => ({
      kind: "result",
      id,
      method,
      result: await session.write(params),
    }))
    .with({ method: "snapshot" }, async ({ method }) => ({
      kind: "result",
      id,
      method,
      result: { blob: await session.snapshot() },
    }))
    .exhaustive();
}

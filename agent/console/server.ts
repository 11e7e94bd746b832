/**
 * The answering end: takes a frame, answers it, takes the next. One further frame is read while a request is being
 * answered, because a `stop` does not wait for a command that runs.
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

/** how often a peer that sends nothing more is looked after while a command runs for it, in milliseconds */
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
  let answering: Promise<void> = Promise.resolve();
  try {
    for (;;) {
      const payload = await channel.next();
      if (payload === undefined) {
        await lastAnswer(answering);
        return "closed";
      }
      onSpoke?.();
      const message = readMessage(payload);
      if (message instanceof MessageError) {
        await answering;
        await refuse(message);
        continue;
      }
      if (message.kind === "notification" && message.method === "stop") session.interrupt();
      await answering;
      if (message.kind === "notification") {
        if (message.method === "quit") return "quit";
        await notified(message.method);
      } else if (message.kind === "request") {
        answering = answer(message);
      } else {
        log.warn("a response that nothing was asked for was ignored", { id: String(message.id) });
      }
    }
  } catch (error) {
    log.warn("the channel is broken", { error: error instanceof Error ? error.message : String(error) });
    await answering;
    return "broken";
  } finally {
    await session.end();
  }

  /** Waits for the answer that is still owed, as long as there is anybody to hear it. */
  async function lastAnswer(answer: Promise<void>): Promise<void> {
    const watch = setInterval(() => {
      if (channel.peerGone) session.interrupt();
    }, peerWatchMs);
    await answer.finally(() => clearInterval(watch));
  }

  async function notified(method: "start" | "stop"): Promise<void> {
    try {
      await (method === "start" ? session.start() : session.stop());
    } catch (error) {
      log.warn(`${method} failed`, { error: error instanceof Error ? error.message : String(error) });
    }
  }

  async function refuse(error: MessageError): Promise<void> {
    if (error.id === undefined) {
      log.warn("a message was ignored", { reason: error.message });
      return;
    }
    await channel.send(encodeError(error.id, ErrorCode[error.refusal], error.message));
  }

  async function answer(request: Request): Promise<void> {
    let pieces: Uint8Array[];
    try {
      pieces = encodeMessage(await perform(session, request));
    } catch (error) {
      if (error instanceof ConsoleError) pieces = encodeError(request.id, error.code, error.message);
      else {
        const text = error instanceof Error ? error.message : String(error);
        const detail = error instanceof Error && !(error instanceof FrameLimitError) ? error.stack : undefined;
        log.error("a request failed", { method: request.method, error: detail ?? text });
        pieces = encodeError(request.id, ErrorCode.internal, text);
      }
    }
    await channel.send(pieces);
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

/**
 * A session that other processes of this user may watch and use. A core serves one connection, and a newer one replaces
 * the older; so whoever comes second joins the session of the first through a Unix socket, instead of taking its place.
 *
 * Private to this package: one JSON line that asks (`watch`, `invoke`, `quit`), then lines that answer.
 */
import { chmodSync, rmSync } from "node:fs";
import { createServer, connect as netConnect, type Socket } from "node:net";
import { z } from "zod";
import { LineDecoder } from "#protocol/bridge/lines.ts";
import { BridgeError, type BridgeErrorCode } from "./error.ts";
import type { InspectedMessage } from "./inspector.ts";
import type { AppSession } from "./session.ts";

/** A watcher that reads too slowly misses messages, rather than that they pile up here. */
const mostWaitingBytes = 8 * 1024 * 1024;

const defaultReadyMs = 60_000;
/** how long the session may still take to be ready, in milliseconds */
const readyMs = z.number().min(0);

const question = z.discriminatedUnion("ask", [
  z.object({ ask: z.literal("watch") }),
  z.object({ ask: z.literal("invoke"), channel: z.string(), args: z.array(z.unknown()), readyMs }),
  z.object({ ask: z.literal("quit"), readyMs }),
]);
type Question = z.infer<typeof question>;

type Answer =
  | { readonly message: InspectedMessage }
  | { readonly problem: string }
  | { readonly result: unknown }
  | {
      readonly error: {
        readonly code: BridgeErrorCode;
        readonly message: string;
        readonly coreCode?: string | undefined;
      };
    };

/**
 * Serves a session at a path, for this user alone, as long as it lives; it need not be ready yet. Returns what ends that
 * earlier, once nobody's call is under way.
 */
export function shareSession(session: AppSession, path: string): () => Promise<void> {
  rmSync(path, { force: true });
  const sockets = new Set<Socket>();
  const underWay = new Set<Promise<void>>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.once("close", () => sockets.delete(socket));
    serve(socket, (asked, answer) => {
      const work = carryOut(session, asked, socket, answer).finally(() => underWay.delete(work));
      underWay.add(work);
    });
  });
  server.listen(path, () => chmodSync(path, 0o600));
  server.unref();
  let stopped = false;
  const stop = async () => {
    while (underWay.size > 0) await Promise.all(underWay);
    // Once: by the second time somebody else may share a session there.
    if (stopped) return;
    stopped = true;
    server.close();
    rmSync(path, { force: true });
    for (const socket of sockets) socket.end();
  };
  session.on("state", (state) => {
    if (state === "closed") setTimeout(() => void stop(), 100).unref();
  });
  return stop;
}

function serve(socket: Socket, take: (asked: Question, answer: (line: Answer) => void) => void): void {
  const decoder = new LineDecoder();
  const answer = (line: Answer) => {
    if (socket.writableLength < mostWaitingBytes) socket.write(`${JSON.stringify(line)}\n`);
  };
  socket.on("error", () => {});
  socket.on("data", (chunk: Buffer) => {
    try {
      decoder.push(chunk);
      for (let line = decoder.next(); line !== undefined; line = decoder.next())
        take(question.parse(JSON.parse(Buffer.from(line).toString())), answer);
    } catch {
      socket.destroy();
    }
  });
}

async function carryOut(
  session: AppSession,
  asked: Question,
  socket: Socket,
  answer: (line: Answer) => void,
): Promise<void> {
  try {
    switch (asked.ask) {
      case "watch": {
        const onMessage = (message: InspectedMessage) => answer({ message });
        const onProblem = (problem: string) => answer({ problem });
        session.on("message", onMessage).on("problem", onProblem);
        socket.once("close", () => session.off("message", onMessage).off("problem", onProblem));
        return;
      }
      case "invoke":
        await untilReady(session, asked.readyMs);
        answer({ result: await session.invoke(asked.channel, ...asked.args) });
        return;
      case "quit":
        await untilReady(session, asked.readyMs);
        answer({ result: await session.quit() });
        return;
      default:
        asked satisfies never;
    }
  } catch (error) {
    const code = error instanceof BridgeError ? error.code : "failed";
    const coreCode = error instanceof BridgeError ? error.coreCode : undefined;
    answer({ error: { code, message: error instanceof Error ? error.message : String(error), coreCode } });
  }
}

/** Waits while the session is being connected. Throws {@link BridgeError} `not_ready` when that takes too long. */
function untilReady(session: AppSession, readyMs: number): Promise<void> {
  const isConnecting = () => session.state === "connecting" || session.state === "starting";
  if (!isConnecting()) return Promise.resolve();
  return new Promise((resolve, reject) => {
    const onState = () => {
      if (isConnecting()) return;
      clearTimeout(timer);
      session.off("state", onState);
      resolve();
    };
    const timer = setTimeout(() => {
      session.off("state", onState);
      reject(new BridgeError("not_ready", `the app was not ready within ${readyMs / 1000} s`));
    }, readyMs);
    session.on("state", onState);
  });
}

/** The session that another process shares at a path. */
export class JoinedSession {
  private constructor(private readonly socket: Socket) {}

  /** Undefined when nobody shares one there. */
  static connect(path: string): Promise<JoinedSession | undefined> {
    return new Promise((resolve) => {
      const socket = netConnect(path);
      socket.once("error", () => resolve(undefined));
      socket.once("connect", () => resolve(new JoinedSession(socket)));
    });
  }

  /** Calls a handler of the core, once the session is ready. Throws {@link BridgeError}. */
  invoke(channel: string, args: readonly unknown[], { readyMs = defaultReadyMs } = {}): Promise<unknown> {
    return this.#ask({ ask: "invoke", channel, args: [...args], readyMs });
  }

  /** Has the app quit, as `AppSession.quit` does. */
  async quit({ readyMs = defaultReadyMs } = {}): Promise<{ ended: boolean }> {
    return (await this.#ask({ ask: "quit", readyMs })) as { ended: boolean };
  }

  /** Reports every message until the session ends or `signal` fires. */
  watch(
    { onMessage, onProblem }: { onMessage: (message: InspectedMessage) => void; onProblem: (text: string) => void },
    signal: AbortSignal,
  ): Promise<void> {
    this.socket.write(`${JSON.stringify({ ask: "watch" } satisfies Question)}\n`);
    signal.addEventListener("abort", () => this.socket.destroy());
    return this.#read((line) => {
      if ("message" in line) onMessage(line.message);
      if ("problem" in line) onProblem(line.problem);
      return true;
    });
  }

  async #ask(asked: Question): Promise<unknown> {
    let answer: Answer | undefined;
    this.socket.write(`${JSON.stringify(asked)}\n`);
    await this.#read((line) => {
      answer = line;
      return false;
    });
    if (answer !== undefined && "error" in answer) {
      const { code, message, coreCode } = answer.error;
      throw new BridgeError(code, message, { coreCode });
    }
    if (answer === undefined || !("result" in answer))
      throw new BridgeError("disconnected", "the process that holds the app's session has ended");
    return answer.result;
  }

  /** Reads answers until `take` returns false or the other end closes. */
  #read(take: (line: Answer) => boolean): Promise<void> {
    const { socket } = this;
    const decoder = new LineDecoder();
    return new Promise((resolve) => {
      socket.on("error", () => {});
      socket.once("close", () => resolve());
      socket.on("data", (chunk: Buffer) => {
        decoder.push(chunk);
        for (let line = decoder.next(); line !== undefined; line = decoder.next()) {
          if (take(JSON.parse(Buffer.from(line).toString()) as Answer)) continue;
          socket.destroy();
          return;
        }
      });
    });
  }
}

/** The named sessions of this agent: who may attach to what, and how long an exit status is kept. */
import type { RawFrameDecoder } from "#protocol/shell/frames.ts";
import type { ResolvedStart } from "#protocol/shell/start.ts";
import type { Log } from "#sys/log.ts";
import type { Peer } from "../service.ts";
import { type Refusal, startCommand } from "./command.ts";
import { NamedSession } from "./named-session.ts";

/** how long the end of a session can still be asked for */
const keepExitMs = 5 * 60_000;
const maxSessions = 64;

/** What is told of a named session, for a listing. */
export interface SessionInfo {
  readonly name: string;
  readonly argv: readonly string[];
  readonly pid: number;
  readonly tty: boolean;
  readonly attached: boolean;
  /** start of the command, seconds since the epoch */
  readonly startedAt: number;
  /** output bytes so far */
  readonly outputBytes: number;
  /** exit status; absent while it runs */
  readonly exitCode?: number;
}

export class NamedSessions {
  readonly #sessions = new Map<string, NamedSession>();
  readonly #log: Log;

  constructor(log: Log) {
    this.#log = log;
  }

  list(): SessionInfo[] {
    return [...this.#sessions.values()].map((session) => ({
      name: session.name,
      argv: session.argv,
      pid: session.pid,
      tty: session.tty,
      attached: session.attached,
      startedAt: Math.floor(session.startedAt.getTime() / 1000),
      outputBytes: session.outputEnd,
      ...(session.exitCode === undefined ? {} : { exitCode: session.exitCode }),
    }));
  }

  /**
   * Attaches to the session of that name, or starts it. With `since` an ended one is attached to as well, and one that
   * does not exist is refused; without, an ended one makes room for a new command. Returns why nothing was attached.
   */
  open({
    name,
    peer,
    start,
    decoder,
  }: {
    name: string;
    peer: Peer;
    start: ResolvedStart;
    decoder: RawFrameDecoder;
  }): Refusal | undefined {
    const existing = this.#sessions.get(name);
    if (existing !== undefined && (existing.exitCode === undefined || start.since !== undefined)) {
      existing.attach({ peer, start, decoder });
      return undefined;
    }
    if (start.since !== undefined) return { kind: "error", message: `no session named ${name}` };
    if (existing === undefined && this.#sessions.size >= maxSessions)
      return { kind: "error", message: `cannot start session ${name}: ${maxSessions} sessions exist already` };
    const command = startCommand(start);
    if ("kind" in command) return command;
    const session = new NamedSession({
      name,
      start,
      command,
      log: this.#log,
      ended: () => {
        const forget = () => {
          if (this.#sessions.get(name) === session) this.#sessions.delete(name);
        };
        setTimeout(forget, keepExitMs).unref();
      },
    });
    this.#sessions.set(name, session);
    session.attach({ peer, start, decoder });
    return undefined;
  }
}

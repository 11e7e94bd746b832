/**
 * One connection, one session: starting → running → draining → closed, or hung up when the client goes first.
 * This file alone decides the order of what the client sees: window, started, output, exit.
 */
import { match } from "ts-pattern";
import type { RawFrameDecoder } from "#protocol/shell/frames.ts";
import { initialCredit, type ResolvedStart } from "#protocol/shell/start.ts";
import type { Log } from "#sys/log.ts";
import type { Peer } from "../service.ts";
import { type Command, type Refusal, startCommand } from "./command.ts";
import { FrameLoop } from "./input.ts";
import { ClientLink } from "./link.ts";
import { type OutputProgress, pumpOutput } from "./output.ts";
import { StdinQueue } from "./stdin.ts";
import { drain, exitCode, floodWatch, hangUp } from "./teardown.ts";

type State = "running" | "draining" | "hungUp" | "closed";

/** Tells the client why no command runs ("Sessions that do not run"). */
export function refuse(link: ClientLink, refusal: Refusal): void {
  match(refusal)
    .with({ kind: "notFound" }, ({ message }) => {
      link.send({ type: "stderr", bytes: new TextEncoder().encode(message) });
      link.finish({ type: "exit", code: 127 });
    })
    .with({ kind: "error" }, ({ message }) => link.finish({ type: "error", message }))
    .exhaustive();
}

/** Runs the session of a decoded start frame to its end. Owns the peer's socket. */
export function runSession({
  peer,
  start,
  decoder,
  log,
}: {
  peer: Peer;
  start: ResolvedStart;
  decoder: RawFrameDecoder;
  log: Log;
}): void {
  const link = new ClientLink(peer.socket);
  const command = startCommand(start);
  if ("kind" in command) refuse(link, command);
  else new Session({ peer, link, start, command, decoder, log });
}

class Session {
  readonly #link: ClientLink;
  readonly #command: Command;
  readonly #stdin: StdinQueue;
  readonly #input: FrameLoop;
  readonly #progress: OutputProgress = { bytesRead: 0 };
  #state: State = "running";

  constructor({
    peer,
    link,
    start,
    command,
    decoder,
    log,
  }: {
    peer: Peer;
    link: ClientLink;
    start: ResolvedStart;
    command: Command;
    decoder: RawFrameDecoder;
    log: Log;
  }) {
    this.#link = link;
    this.#command = command;
    this.#stdin = new StdinQueue({
      writer: command.stdin,
      tty: command.tty,
      resumed: () => this.#input.resumed(),
    });
    this.#input = new FrameLoop({
      socket: peer.socket,
      decoder,
      log,
      disconnected: () => this.#hangUp(),
    });
    this.#stdin.serve({ flow: start.flow, grant: (bytes) => link.grant(bytes) });
    const started = { type: "started" } as const;
    if (start.flow) link.send({ type: "window", bytes: initialCredit }, started);
    else link.send(started);
    this.#input.start({ command, stdin: this.#stdin });
    void this.#run();
  }

  async #run(): Promise<void> {
    const { stdout, stderr, exited } = this.#command;
    const pumps = [pumpOutput({ reader: stdout, type: "stdout", link: this.#link, progress: this.#progress })];
    if (stderr !== undefined)
      pumps.push(pumpOutput({ reader: stderr, type: "stderr", link: this.#link, progress: this.#progress }));
    const status = await exited;
    // The end of the output is usually there already, sooner than the poller would tell.
    stdout.nudge();
    stderr?.nudge();
    if (this.#state === "running") {
      this.#state = "draining";
      const link = this.#link;
      const flooded = floodWatch({ command: this.#command, bytesRead: () => this.#progress.bytesRead });
      await drain({
        outputDone: Promise.all(pumps),
        waiting: () => link.queuedBytes > 0,
        over: () => link.closed || flooded(),
      });
    }
    if (this.#state === "draining") {
      this.#input.stop();
      this.#link.finish({ type: "exit", code: exitCode(status) });
    }
    this.#close();
  }

  #hangUp(): void {
    if (this.#state !== "running") {
      this.#link.destroy();
      return;
    }
    this.#state = "hungUp";
    this.#link.destroy();
    this.#stdin.close();
    void hangUp(this.#command).then(() => this.#close());
  }

  /** Lets go of the command's pipes or terminal. */
  #close(): void {
    this.#state = "closed";
    this.#stdin.close();
    this.#command.stdout.close();
    this.#command.stderr?.close();
  }
}

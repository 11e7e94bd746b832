/**
 * A session that outlives its connections: the command's output goes to a ring, and at most one client at a time is fed
 * from it. States: running → ended; with or without a client in both.
 */
import type { RawFrameDecoder } from "#protocol/shell/frames.ts";
import type { ResolvedStart } from "#protocol/shell/start.ts";
import type { Log } from "#sys/log.ts";
import type { FdReader } from "#sys/stream-fd.ts";
import type { Peer } from "../service.ts";
import type { Command } from "./command.ts";
import { FrameLoop } from "./input.ts";
import { ClientLink } from "./link.ts";
import { OutputRing } from "./ring.ts";
import { StdinQueue } from "./stdin.ts";
import { drain, exitCode, floodWatch } from "./teardown.ts";

/** how far the command may run ahead of a client that is attached, in bytes */
const maxAheadBytes = 256 * 1024;
const readBytes = 64 * 1024;

interface Attachment {
  readonly link: ClientLink;
  readonly input: FrameLoop;
  /** offset of the next byte for this client */
  cursor: number;
}

export class NamedSession {
  readonly name: string;
  readonly argv: readonly string[];
  readonly startedAt = new Date();
  readonly #command: Command;
  readonly #stdin: StdinQueue;
  readonly #ring = new OutputRing();
  readonly #log: Log;
  readonly #ended: () => void;
  #attachment: Attachment | undefined;
  #exitCode: number | undefined;
  /** pumps that wait for an attached client to catch up */
  #held: (() => void)[] = [];
  /** the feeder, when it waits for output */
  #hungry: (() => void) | undefined;

  constructor({
    name,
    start,
    command,
    log,
    ended,
  }: {
    name: string;
    start: ResolvedStart;
    command: Command;
    log: Log;
    /** runs once, when the command has exited and its output was taken */
    ended: () => void;
  }) {
    this.name = name;
    this.argv = start.argv;
    this.#command = command;
    this.#log = log;
    this.#ended = ended;
    this.#stdin = new StdinQueue({
      writer: command.stdin,
      tty: command.tty,
      resumed: () => this.#attachment?.input.resumed(),
    });
    void this.#run();
  }

  get pid(): number {
    return this.#command.pid;
  }

  get tty(): boolean {
    return this.#command.tty;
  }

  get attached(): boolean {
    return this.#attachment !== undefined;
  }

  /** exit status of the command, 128 + n for a signal; undefined while it runs */
  get exitCode(): number | undefined {
    return this.#exitCode;
  }

  /** offset of the next output byte */
  get outputEnd(): number {
    return this.#ring.end;
  }

  /**
   * Makes `peer` the session's client; a former one is told `session taken over`. The client gets `started`, the offset
   * that the output goes on from, and then the output.
   */
  attach({ peer, start, decoder }: { peer: Peer; start: ResolvedStart; decoder: RawFrameDecoder }): void {
    const { since } = start;
    const link = new ClientLink(peer.socket);
    if (since !== undefined && since > this.#ring.end) {
      const message = `protocol error: since: ${since} is beyond the session's output of ${this.#ring.end} bytes`;
      link.finish({ type: "error", message });
      return;
    }
    this.#attachment?.input.stop();
    this.#attachment?.link.finish({ type: "error", message: "session taken over" });

    const input = new FrameLoop({
      socket: peer.socket,
      decoder,
      log: this.#log,
      disconnected: () => this.#detach(attachment),
    });
    const cursor = Math.max(since ?? 0, this.#ring.start);
    const attachment: Attachment = { link, input, cursor };
    this.#attachment = attachment;
    this.#release();

    this.#stdin.serve({ flow: start.flow, grant: (bytes) => link.grant(bytes) });
    const started = { type: "started" } as const;
    if (start.flow) link.send({ type: "window", bytes: this.#stdin.credit }, started);
    else link.send(started);
    link.send({ type: "offset", position: BigInt(cursor) });
    if (this.#exitCode === undefined) {
      this.#command.resize(start);
      input.start({ command: this.#command, stdin: this.#stdin });
    } else {
      // Its process group may be somebody else's by now.
      input.start();
    }
    void this.#feed(attachment);
  }

  /** Takes the output until the command has exited and nothing more of it comes. */
  async #run(): Promise<void> {
    const { stdout, stderr, exited } = this.#command;
    const pumps = [this.#pump(stdout, "stdout")];
    if (stderr !== undefined) pumps.push(this.#pump(stderr, "stderr"));
    const status = await exited;
    stdout.nudge();
    stderr?.nudge();
    const over = floodWatch({ command: this.#command, bytesRead: () => this.#ring.end });
    await drain({ outputDone: Promise.all(pumps), waiting: () => this.#isBehind(), over });
    this.#stdin.close();
    stdout.close();
    stderr?.close();
    this.#exitCode = exitCode(status);
    this.#wakeFeeder();
    this.#ended();
  }

  async #pump(reader: FdReader, type: "stdout" | "stderr"): Promise<void> {
    const buffer = new Uint8Array(readBytes);
    for (;;) {
      if (this.#isBehind()) await new Promise<void>((resolve) => this.#held.push(resolve));
      const count = reader.tryRead(buffer, 0, buffer.length);
      if (count === 0) return;
      if (count < 0) {
        await reader.readable();
        continue;
      }
      this.#ring.append(type, buffer.subarray(0, count));
      this.#wakeFeeder();
      // Without a client nothing else would let the event loop serve the others.
      await new Promise((resolve) => setImmediate(resolve));
    }
  }

  async #feed(attachment: Attachment): Promise<void> {
    const { link } = attachment;
    while (this.#attachment === attachment && !link.closed) {
      const piece = this.#ring.readFrom(attachment.cursor);
      if (piece !== undefined) {
        if (!link.hasRoom) {
          await link.room();
          continue;
        }
        attachment.cursor += piece.bytes.length;
        link.send({ type: piece.type, bytes: piece.bytes });
        this.#release();
      } else if (this.#exitCode !== undefined) {
        this.#attachment = undefined;
        attachment.input.stop();
        link.finish({ type: "exit", code: this.#exitCode });
      } else {
        await new Promise<void>((resolve) => {
          this.#hungry = resolve;
        });
      }
    }
  }

  #detach(attachment: Attachment): void {
    attachment.link.destroy();
    if (this.#attachment !== attachment) return;
    this.#attachment = undefined;
    this.#release();
    this.#wakeFeeder();
  }

  #isBehind(): boolean {
    if (this.#attachment === undefined) return false;
    const { cursor } = this.#attachment;
    return this.#ring.end - cursor >= maxAheadBytes || this.#ring.isCrowdedBehind(cursor);
  }

  /** Lets the pumps look again whether they may read. */
  #release(): void {
    if (this.#isBehind()) return;
    const held = this.#held;
    this.#held = [];
    for (const resolve of held) resolve();
  }

  #wakeFeeder(): void {
    const hungry = this.#hungry;
    this.#hungry = undefined;
    hungry?.();
  }
}

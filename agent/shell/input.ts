/**
 * The frame-reading loop of a running session. It applies signal, resize and stdinEOF as they arrive and never waits for
 * the command, except for a client that overruns its stdin credit.
 */
import type { Socket } from "node:net";
import { decodeClientFrame, type RawFrame, type RawFrameDecoder, ShellFrameError } from "#protocol/shell/frames.ts";
import type { Log } from "#sys/log.ts";
import { Watch } from "#sys/poller.ts";
import { descriptorOf } from "../descriptor.ts";
import type { Command } from "./command.ts";
import type { StdinQueue } from "./stdin.ts";

/** SIGHUP, SIGINT, SIGTERM: the only signals a client may send ("Signals") */
const allowedSignals: ReadonlySet<number> = new Set([1, 2, 15]);

export class FrameLoop {
  readonly #socket: Socket;
  readonly #decoder: RawFrameDecoder;
  readonly #log: Log;
  /** runs once: the connection closed, failed, or sent something that ends it */
  readonly #disconnected: (reason: string) => void;
  #command: Command | undefined;
  #stdin: StdinQueue | undefined;
  /** a stdin frame that waits for room in the queue */
  #blocked: Uint8Array | undefined;
  #hangUpWatch: Watch | undefined;
  #ignoredFrames = 0;
  #over = false;

  constructor({
    socket,
    decoder,
    log,
    disconnected,
  }: {
    socket: Socket;
    decoder: RawFrameDecoder;
    log: Log;
    disconnected: (reason: string) => void;
  }) {
    this.#socket = socket;
    this.#decoder = decoder;
    this.#log = log;
    this.#disconnected = disconnected;
  }

  /** Starts reading; frames that arrived behind `start` come first. Of a session that has ended, none is applied. */
  start({ command, stdin }: { command?: Command; stdin?: StdinQueue } = {}): void {
    this.#command = command;
    this.#stdin = stdin;
    const socket = this.#socket;
    socket.on("data", (chunk: Uint8Array) => {
      if (this.#over) return;
      this.#decoder.push(chunk);
      this.#process();
    });
    socket.on("end", () => this.#disconnect("the client closed the connection"));
    socket.on("close", () => this.#disconnect("the connection is gone"));
    if (socket.destroyed || socket.readableEnded) {
      this.#disconnect("the connection is gone");
      return;
    }
    this.#process();
    if (this.#blocked === undefined) socket.resume();
  }

  /** The queue took a payload: what waited may go on. */
  resumed(): void {
    if (this.#over || this.#blocked === undefined || this.#stdin === undefined) return;
    if (this.#stdin.wouldBlock(this.#blocked.length)) return;
    const payload = this.#blocked;
    this.#blocked = undefined;
    this.#hangUpWatch?.close();
    this.#hangUpWatch = undefined;
    this.#stdin.push(payload);
    this.#process();
    if (this.#blocked === undefined) this.#socket.resume();
  }

  /** Stops: whatever still arrives is dropped. */
  stop(): void {
    this.#over = true;
    this.#blocked = undefined;
    this.#hangUpWatch?.close();
    this.#hangUpWatch = undefined;
    this.#socket.resume();
  }

  #process(): void {
    try {
      while (!this.#over && this.#blocked === undefined) {
        const frame = this.#decoder.next();
        if (frame === undefined) return;
        this.#apply(frame);
      }
    } catch (error) {
      if (!(error instanceof ShellFrameError)) throw error;
      this.#disconnect(error.message);
    }
  }

  #apply(raw: RawFrame): void {
    const command = this.#command;
    const stdin = this.#stdin;
    if (command === undefined || stdin === undefined) return;
    const frame = decodeClientFrame(raw);
    switch (frame.type) {
      case "stdin":
        if (stdin.wouldBlock(frame.bytes.length)) this.#block(frame.bytes);
        else stdin.push(frame.bytes);
        return;
      case "stdinEof":
        stdin.end();
        return;
      case "resize":
        command.resize(frame);
        return;
      case "signal":
        if (allowedSignals.has(frame.number)) command.signalGroup(frame.number);
        return;
      case "start":
        this.#ignore("a second start");
        return;
      case "ignored":
        this.#ignore(frame.reason);
        return;
    }
  }

  /** Only the first of a session is logged: a client may send any number of them. */
  #ignore(reason: string): void {
    this.#ignoredFrames++;
    if (this.#ignoredFrames === 1) this.#log.warn("frame ignored, further ones of its session silently", { reason });
  }

  /** Stops reading. A paused socket does not report its own end, so that is watched for separately. */
  #block(payload: Uint8Array): void {
    this.#blocked = payload;
    this.#socket.pause();
    const fd = descriptorOf(this.#socket);
    if (fd === undefined) return;
    this.#hangUpWatch = new Watch(fd);
    this.#hangUpWatch.whenHungUp(() => this.#disconnect("the client closed the connection"));
  }

  #disconnect(reason: string): void {
    if (this.#over) return;
    this.stop();
    this.#disconnected(reason);
  }
}

/**
 * Ends a session whose guest is gone without a word. A guest that reboots in place, or hangs, closes nothing: a session that
 * has nothing to send would wait for ever (companion "Client").
 */
import { ports } from "#protocol/ports.ts";
import { dial } from "../../transport/dial.ts";
import { TransportError } from "../../transport/error.ts";
import { type Address, formatTarget } from "../../transport/target.ts";
import type { ControlConnection } from "../control/connection.ts";
import { ControlError } from "../control/error.ts";
import { closedMessage, ShellError } from "./error.ts";
import type { ShellSession } from "./session.ts";

/** a session that was silent for so long is looked after, and then as often, in milliseconds */
const intervalMs = 5_000;
const maxMisses = 3;

/**
 * A signal that every agent ignores ("Every other number … is ignored"). It is something to write: a guest that was started
 * anew does not know the connection, and resets it.
 */
const nullSignal = 0;

/** `notOffered`: nothing there speaks the control protocol, and nothing there ever has */
type Answer = "alive" | "missed" | "notOffered";

/** Looks after a session until it is over. Costs a timer while there is output, and one control connection a guest when not. */
export function watchLiveness({
  session,
  bytesReceived,
  target,
}: {
  session: ShellSession;
  /** bytes that its connection has received so far */
  bytesReceived: () => number;
  target: Address;
}): void {
  const pulse = Pulse.of(target);
  let heard = bytesReceived();
  let misses = 0;
  let waiting = false;
  const onAnswer = (answer: Answer): void => {
    if (answer === "missed") return;
    waiting = false;
    misses = 0;
  };
  const look = (): void => {
    const now = bytesReceived();
    // Of a session whose output waits for its reader nothing can be heard.
    const silent = now === heard && !session.stalled;
    heard = now;
    if (!silent) {
      waiting = false;
      misses = 0;
      return;
    }
    if (waiting) misses++;
    if (misses === maxMisses) {
      session.disconnect(new ShellError("unresponsive", closedMessage));
      return;
    }
    session.signal(nullSignal);
    waiting = true;
    void pulse.ask().then(onAnswer);
  };
  const timer = setInterval(look, intervalMs);
  // The session's own connection keeps the process alive, and nothing else should.
  timer.unref();
  const stop = (): void => {
    clearInterval(timer);
    pulse.release();
  };
  session.exit.then(stop, stop);
}

/** The control connection over which all silent sessions of a guest ask. Made when one asks, kept while there are sessions. */
class Pulse {
  static readonly #pulses = new Map<string, Pulse>();

  /** The guest's pulse, to be {@link release}d once. */
  static of(target: Address): Pulse {
    const key = formatTarget(target);
    const pulse = Pulse.#pulses.get(key) ?? new Pulse(target, () => Pulse.#pulses.delete(key));
    Pulse.#pulses.set(key, pulse);
    pulse.#users++;
    return pulse;
  }

  readonly #target: Address;
  readonly #forget: () => void;
  #users = 0;
  #control: ControlConnection | undefined;
  /** whether a control daemon has ever answered */
  #answered = false;
  #asking: Promise<Answer> | undefined;
  readonly #givenUp = new AbortController();

  private constructor(target: Address, forget: () => void) {
    this.#target = target;
    this.#forget = forget;
  }

  /** Asks the guest whether it lives; those who ask at the same time share the answer. */
  ask(): Promise<Answer> {
    this.#asking ??= this.#ask().finally(() => {
      this.#asking = undefined;
    });
    return this.#asking;
  }

  release(): void {
    if (--this.#users > 0) return;
    this.#forget();
    this.#givenUp.abort();
  }

  async #ask(): Promise<Answer> {
    const timeoutMs = maxMisses * intervalMs;
    try {
      const control = this.#control?.open ? this.#control : await this.#connect(timeoutMs);
      await control.request({ t: "ping" }, { timeoutMs });
      // A stock daemon serves one connection at a time, so it is not kept from others.
      if (control.hello.build === undefined) control.close();
      return "alive";
    } catch (error) {
      return this.#answered || !isAbsence(error) ? "missed" : "notOffered";
    }
  }

  async #connect(timeoutMs: number): Promise<ControlConnection> {
    const connection = await dial({
      target: this.#target,
      port: ports.control,
      timeoutMs,
      signal: this.#givenUp.signal,
    });
    this.#givenUp.signal.addEventListener("abort", () => connection.socket.destroy(), { once: true });
    const { ControlConnection } = await import("../control/connection.ts");
    const control = await ControlConnection.open(connection, { timeoutMs });
    this.#control = control;
    this.#answered = true;
    return control;
  }
}

function isAbsence(error: unknown): boolean {
  if (error instanceof TransportError) return error.code !== "timeout";
  return error instanceof ControlError && (error.code === "protocol" || error.code === "version");
}

/** The invokes that wait for their result. */
import type { Outcome } from "#protocol/bridge/messages.ts";
import { BridgeError } from "./error.ts";

interface Waiting {
  readonly channel: string;
  resolve(result: unknown): void;
  reject(error: BridgeError): void;
}

export class Invocations {
  readonly #waiting = new Map<number, Waiting>();
  #nextId = 1;

  /** The id of a new call, and the promise of its result. */
  begin(channel: string): { id: number; result: Promise<unknown> } {
    const id = this.#nextId;
    this.#nextId += 1;
    const result = new Promise<unknown>((resolve, reject) => {
      this.#waiting.set(id, { channel, resolve, reject });
    });
    return { id, result };
  }

  /** Settles a call and answers its channel; undefined when nobody waits for it. */
  settle(id: number, outcome: Outcome): string | undefined {
    const waiting = this.#take(id);
    if (waiting === undefined) return undefined;
    if ("error" in outcome) {
      const { message, code } = outcome.error;
      waiting.reject(new BridgeError("failed", `${waiting.channel}: ${message}`, { coreCode: code }));
    } else waiting.resolve(outcome.result);
    return waiting.channel;
  }

  /** Gives a call up; a result that comes later is dropped. */
  abandon(id: number, error: BridgeError): void {
    this.#take(id)?.reject(error);
  }

  /** Fails every call at once. `describe` gets the channel. */
  failAll(makeError: (channel: string) => BridgeError): void {
    const all = [...this.#waiting.values()];
    this.#waiting.clear();
    for (const { channel, reject } of all) reject(makeError(channel));
  }

  #take(id: number): Waiting | undefined {
    const waiting = this.#waiting.get(id);
    this.#waiting.delete(id);
    return waiting;
  }
}

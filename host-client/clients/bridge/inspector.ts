/** What the inspector shows of the traffic of a session. */
import type { BridgeMessage } from "#protocol/bridge/messages.ts";
import { previewMessage } from "#protocol/bridge/preview.ts";

/** One message, as it passed. */
export interface InspectedMessage {
  readonly direction: "to-core" | "from-core";
  /** milliseconds since the session began */
  readonly atMs: number;
  /** the message's type */
  readonly t: string;
  /** length of the line, in bytes */
  readonly bytes: number;
  /** first 200 characters of the JSON, secrets hidden */
  readonly preview: string;
  /** pairs a call with its answer, within its direction */
  readonly id?: number;
  /** on an answer (`result`, `reply`, `ready`): milliseconds since what it answers */
  readonly latencyMs?: number;
  /** a request that the permissions do not allow, or an answer nobody waits for */
  readonly refused?: "denied" | "dropped";
}

/** Notes when calls began and on which channel, only as long as somebody watches. */
export class Inspector {
  readonly #startedAt = performance.now();
  readonly #calls = new Map<string, { at: number; channel: string | undefined }>();

  inspect({
    message,
    direction,
    bytes,
    refused,
    channel,
  }: {
    message: BridgeMessage;
    direction: InspectedMessage["direction"];
    bytes: number;
    refused?: InspectedMessage["refused"];
    /** the one that a result answers, which began perhaps before anybody watched */
    channel?: string;
  }): InspectedMessage {
    const now = performance.now();
    const call = this.#callOf(message, now);
    return {
      direction,
      atMs: now - this.#startedAt,
      t: message.t,
      bytes,
      preview: previewMessage(message, call?.channel ?? channel),
      ...("id" in message ? { id: message.id } : {}),
      ...(call === undefined ? {} : { latencyMs: now - call.at }),
      ...(refused === undefined ? {} : { refused }),
    };
  }

  /** Nobody waits for these calls any more. */
  forgetCalls(): void {
    this.#calls.clear();
  }

  /** Remembers a call, and answers the call that an answer ends. */
  #callOf(message: BridgeMessage, now: number): { at: number; channel: string | undefined } | undefined {
    switch (message.t) {
      case "invoke":
        this.#calls.set(`invoke ${message.id}`, { at: now, channel: message.channel });
        return undefined;
      case "request":
        this.#calls.set(`request ${message.id}`, { at: now, channel: undefined });
        return undefined;
      case "init":
        this.#calls.set("init", { at: now, channel: undefined });
        return undefined;
      case "result":
        return this.#take(`invoke ${message.id}`);
      case "reply":
        return this.#take(`request ${message.id}`);
      case "ready":
        return this.#take("init");
      case "send":
      case "emit":
      case "window":
      case "before-quit":
        return undefined;
      default:
        return message satisfies never;
    }
  }

  #take(key: string): { at: number; channel: string | undefined } | undefined {
    const call = this.#calls.get(key);
    this.#calls.delete(key);
    return call;
  }
}

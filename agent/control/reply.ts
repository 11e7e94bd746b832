import type { ReplyFields } from "./writer.ts";

/** What a handler answers. The session adds the request's id and sends it. */
export interface Reply {
  readonly fields: ReplyFields;
  /** sends exactly the raw bytes that the fields announce; called after the frame, whatever happens before `close` */
  readonly body?: (send: (chunk: Uint8Array) => Promise<void>) => Promise<void>;
  /** called once, after the reply or when it could not be sent */
  readonly close?: () => Promise<void>;
  /** what the request asked for and the answer must precede; called only when the reply has left */
  readonly after?: () => void;
  /** the connection ends behind this reply */
  readonly last?: true;
}

/** The raw block that came with a request. */
export interface RequestBody {
  /** bytes announced */
  readonly size: number;
  /** The next piece, undefined at the end. Rejects when the connection ends before it. */
  next(): Promise<Uint8Array | undefined>;
}

export const ok: Reply = { fields: { t: "ok" } };

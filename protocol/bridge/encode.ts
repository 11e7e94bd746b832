/** Messages to lines. Values are encoded one by one, so that one which JSON cannot carry is an error of its own call. */
import { errorBodyOf } from "./error-body.ts";
import { maxLineBytes } from "./lines.ts";
import type { BridgeMessage, Outcome } from "./messages.ts";

/**
 * - `unencodable`: JSON cannot carry a value (undefined, a function, a cycle, a BigInt)
 * - `too_large`: the line would exceed 16 MiB
 */
export class EncodeError extends Error {
  override readonly name = "EncodeError";
  constructor(
    readonly code: "unencodable" | "too_large",
    message: string,
    cause?: unknown,
  ) {
    super(message, cause === undefined ? undefined : { cause });
  }
}

/** One line with its `\n`. Throws {@link EncodeError}; nothing has been sent then. */
export function encodeMessage(message: BridgeMessage): string {
  const line = `${encodeObject(message)}\n`;
  // A UTF-16 unit takes at most 3 bytes in UTF-8, so most lines need no counting.
  if (line.length * 3 > maxLineBytes) {
    const bytes = Buffer.byteLength(line) - 1;
    if (bytes > maxLineBytes)
      throw new EncodeError("too_large", `a message of ${bytes} bytes exceeds the limit of ${maxLineBytes}`);
  }
  return line;
}

function encodeObject(message: BridgeMessage): string {
  switch (message.t) {
    case "init":
    case "ready":
    case "before-quit":
      return encodeValue(message, message.t);
    case "invoke":
      return `{"t":"invoke","id":${message.id},"win":${message.win},${encodeChannel(message.channel, message.args)}}`;
    case "send":
      return `{"t":"send","win":${message.win},${encodeChannel(message.channel, message.args)}}`;
    case "emit":
      return `{"t":"emit","win":${message.win},${encodeChannel(message.channel, message.args)}}`;
    case "window":
      return `{"t":"window","win":${message.win},"event":${JSON.stringify(message.event)},"data":${encodeValue(message.data, "the event's data")}}`;
    case "request":
      return `{"t":"request","id":${message.id},"op":${JSON.stringify(message.op)},"params":${encodeValue(message.params, `the params of ${message.op}`)}}`;
    case "reply":
    case "result":
      return `{"t":"${message.t}","id":${message.id},${encodeOutcome(message)}}`;
    default:
      return message satisfies never;
  }
}

function encodeChannel(channel: string, args: readonly unknown[]): string {
  let list = "";
  for (let index = 0; index < args.length; index += 1) {
    if (index > 0) list += ",";
    list += encodeValue(args[index], `argument ${index + 1} of ${JSON.stringify(channel)}`);
  }
  return `"channel":${encodeValue(channel, "the channel")},"args":[${list}]`;
}

function encodeOutcome(outcome: Outcome): string {
  return "error" in outcome
    ? `"error":${JSON.stringify(outcome.error)}`
    : `"result":${encodeValue(outcome.result, "the result")}`;
}

function encodeValue(value: unknown, what: string): string {
  let text: string | undefined;
  try {
    text = JSON.stringify(value);
  } catch (cause) {
    throw new EncodeError("unencodable", `JSON cannot carry ${what}: ${errorBodyOf(cause).message}`, cause);
  }
  if (text === undefined) {
    const kind = value === undefined ? "undefined" : `a ${typeof value}`;
    throw new EncodeError("unencodable", `JSON cannot carry ${what}: it is ${kind}`);
  }
  return text;
}

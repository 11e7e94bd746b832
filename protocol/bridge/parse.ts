/**
 * Lines to messages, without a dependency, because the SDK carries this into every app. Fields that a message does not
 * know are ignored.
 */
import type { CoreMessage, EmitMessage, ErrorBody, HostMessage, InitMessage, Outcome } from "./messages.ts";

export type Parsed<M> =
  | { readonly kind: "message"; readonly message: M }
  /** an empty line */
  | { readonly kind: "empty" }
  /** a type that this end does not know */
  | { readonly kind: "unknown"; readonly t: string }
  /** dropped; with `t` and `id` where the other end may wait for an answer, or this end for the call's */
  | { readonly kind: "malformed"; readonly reason: string; readonly t?: string; readonly id?: number };

type Fields = Readonly<Record<string, unknown>>;

const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** Reads a line that the host end sent. */
export function parseHostMessage(line: Uint8Array): Parsed<HostMessage> {
  return parseWith(line, hostMessage);
}

/** Reads a line that the core end sent. */
export function parseCoreMessage(line: Uint8Array): Parsed<CoreMessage> {
  return parseWith(line, coreMessage);
}

/** A reader answers the message, undefined for a type it does not know, or throws a {@link Malformed}. */
function parseWith<M>(line: Uint8Array, read: (t: string, fields: Fields) => M | undefined): Parsed<M> {
  if (line.length === 0) return { kind: "empty" };
  let value: unknown;
  try {
    value = JSON.parse(utf8.decode(line));
  } catch {
    return { kind: "malformed", reason: `${line.length} bytes that are not JSON in UTF-8` };
  }
  if (!isObject(value)) return { kind: "malformed", reason: "a line that is not a JSON object" };
  const t = value.t;
  if (typeof t !== "string") return { kind: "malformed", reason: 'an object without a string "t"' };
  try {
    const message = read(t, value);
    return message === undefined ? { kind: "unknown", t } : { kind: "message", message };
  } catch (error) {
    if (!(error instanceof Malformed)) throw error;
    const id = value.id;
    return { kind: "malformed", reason: `${t}: ${error.message}`, t, ...(isId(id) ? { id } : {}) };
  }
}

function hostMessage(t: string, fields: Fields): HostMessage | undefined {
  switch (t as HostMessage["t"]) {
    case "init":
      return init(fields);
    case "reply":
      return { t: "reply", id: integer(fields, "id"), ...outcome(fields) };
    case "invoke":
      return {
        t: "invoke",
        id: integer(fields, "id"),
        win: integer(fields, "win"),
        channel: text(fields, "channel"),
        args: list(fields, "args"),
      };
    case "send":
      return { t: "send", win: integer(fields, "win"), channel: text(fields, "channel"), args: list(fields, "args") };
    case "window":
      return { t: "window", win: integer(fields, "win"), event: text(fields, "event"), data: fields.data ?? {} };
    case "before-quit":
      return { t: "before-quit" };
    default:
      return undefined;
  }
}

function coreMessage(t: string, fields: Fields): CoreMessage | undefined {
  switch (t as CoreMessage["t"]) {
    case "ready":
      return { t: "ready" };
    case "request":
      return { t: "request", id: integer(fields, "id"), op: text(fields, "op"), params: fields.params ?? {} };
    case "result":
      return { t: "result", id: integer(fields, "id"), ...outcome(fields) };
    case "emit":
      return emit(fields);
    default:
      return undefined;
  }
}

function emit(fields: Fields): EmitMessage {
  const win = fields.win === null ? null : integer(fields, "win");
  return { t: "emit", win, channel: text(fields, "channel"), args: list(fields, "args") };
}

/** Absent parts are empty; parts of another type are not taken. */
function init(fields: Fields): InitMessage {
  const app = optionalObject(fields, "app");
  const platform = optionalObject(fields, "platform");
  const folders = optionalObject(fields, "folders");
  for (const [name, path] of Object.entries(folders)) {
    if (path !== null && typeof path !== "string") throw new Malformed(`folder ${JSON.stringify(name)} is not a path`);
  }
  return {
    t: "init",
    app: { id: optionalText(app, "id"), name: optionalText(app, "name"), version: optionalText(app, "version") },
    platform: { os: optionalText(platform, "os"), arch: optionalText(platform, "arch") },
    folders: folders as Record<string, string | null>,
    data: optionalText(fields, "data"),
  };
}

/** An error that is null counts as none: some serialisers write both fields. */
function outcome(fields: Fields): Outcome {
  const error = fields.error;
  if (error !== undefined && error !== null) return { error: errorBody(error) };
  if (fields.result === undefined) throw new Malformed('neither "result" nor "error"');
  return { result: fields.result };
}

function errorBody(error: unknown): ErrorBody {
  if (typeof error === "string") return { message: error };
  if (!isObject(error)) return { message: "the other end gave no reason" };
  const message = typeof error.message === "string" ? error.message : "the other end gave no reason";
  return typeof error.code === "string" ? { message, code: error.code } : { message };
}

class Malformed extends Error {}

function isObject(value: unknown): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function isId(value: unknown): value is number {
  return Number.isSafeInteger(value);
}

function integer(fields: Fields, name: string): number {
  const value = fields[name];
  if (!isId(value)) throw new Malformed(`"${name}" is not an integer`);
  return value;
}

function text(fields: Fields, name: string): string {
  const value = fields[name];
  if (typeof value !== "string") throw new Malformed(`"${name}" is not a string`);
  return value;
}

function list(fields: Fields, name: string): readonly unknown[] {
  const value = fields[name];
  if (!Array.isArray(value)) throw new Malformed(`"${name}" is not an array`);
  return value;
}

function optionalText(fields: Fields, name: string): string {
  return fields[name] === undefined ? "" : text(fields, name);
}

function optionalObject(fields: Fields, name: string): Fields {
  const value = fields[name];
  if (value === undefined) return {};
  if (!isObject(value)) throw new Malformed(`"${name}" is not an object`);
  return value;
}

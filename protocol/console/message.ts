/**
 * Messages of the console: JSON-RPC 2.0's three shapes as BSON. Reading has two stages, so that one bad request costs one
 * answer and not the channel: the frame is a document or the stream is lost ({@link DocumentError}); the document is a
 * message or it is refused under its own id ({@link MessageError}).
 */
import { FrameLimitError, frameHeaderBytes } from "../framing.ts";
import {
  type CallMethod,
  type Calls,
  callCodecs,
  isCallMethod,
  isNotificationMethod,
  type NotificationMethod,
} from "./calls.ts";
import { DocumentError, type Element, ElementType, readMembers, typeName } from "./document-reader.ts";
import { type DocumentValue, documentLength, writeDocument } from "./document-writer.ts";
import type { ErrorName } from "./errors.ts";
import { maxPayload } from "./limits.ts";
import { MemberError, Members, stringOf } from "./members.ts";

export type Request = {
  [Method in CallMethod]: { kind: "request"; id: bigint; method: Method; params: Calls[Method]["params"] };
}[CallMethod];

export interface Notification {
  readonly kind: "notification";
  readonly method: NotificationMethod;
}

export type ResultResponse = {
  [Method in CallMethod]: { kind: "result"; id: bigint; method: Method; result: Calls[Method]["result"] };
}[CallMethod];

export interface ErrorResponse {
  readonly kind: "error";
  readonly id: bigint;
  readonly error: { readonly code: number; readonly message: string };
}

export type Message = Request | Notification | ResultResponse | ErrorResponse;

/** A document that is not a message of the contract. */
export class MessageError extends Error {
  override readonly name = "MessageError";
  constructor(
    /** what a server answers with, when there is an id to answer under */
    readonly refusal: ErrorName & ("invalidRequest" | "methodNotFound" | "invalidParams"),
    message: string,
    /** the message's id, when it has a usable one */
    readonly id: bigint | undefined,
  ) {
    super(message);
  }
}

const protocolVersion = "2.0";
const envelopeNames: ReadonlySet<string> = new Set(["jsonrpc", "id", "method", "params", "result", "error"]);
const emptyDocument = new Uint8Array([5, 0, 0, 0, 0]);

/**
 * Reads one payload. Bytes in the message are views of it.
 * Throws {@link DocumentError} when it is not BSON and {@link MessageError} when it is not a message.
 */
export function decodeMessage(payload: Uint8Array): Message {
  const members = readMembers(payload, envelopeNames);
  const id = usableId(members.get("id"));
  const refuse = (message: string, refusal: MessageError["refusal"] = "invalidRequest") =>
    new MessageError(refusal, message, id);

  try {
    checkVersion(members.get("jsonrpc"));
    checkId(members.get("id"), id);
    const methodElement = members.get("method");
    const method = methodElement && stringOf(methodElement, "method");
    if (method !== undefined && !isCallMethod(method) && !isNotificationMethod(method)) {
      throw refuse(`unknown method ${JSON.stringify(method)}`, "methodNotFound");
    }
    if (members.has("result") || members.has("error")) return decodeResponse(members, id, method);
    if (method === undefined) throw refuse("no method, result or error");
    if (isNotificationMethod(method)) {
      if (id !== undefined) throw refuse(`${method} cannot carry an id`);
      return { kind: "notification", method };
    }
    if (id === undefined) throw refuse(`${method} needs an id`);
    return { kind: "request", id, method, params: decodeParams(method, members.get("params")) } as Request;
  } catch (error) {
    if (error instanceof ParamsError) throw refuse(error.message, "invalidParams");
    if (error instanceof MemberError || error instanceof DocumentError) throw refuse(error.message);
    throw error;
  }
}

function checkVersion(jsonrpc: Element | undefined): void {
  if (jsonrpc === undefined) throw new MemberError("jsonrpc is missing");
  const version = stringOf(jsonrpc, "jsonrpc");
  if (version !== protocolVersion) {
    throw new MemberError(`jsonrpc is ${JSON.stringify(version)}, not "${protocolVersion}"`);
  }
}

/** An unsigned integer of the wire; a double is none, whatever its value. */
function usableId(element: Element | undefined): bigint | undefined {
  if (element === undefined) return undefined;
  const view = new DataView(element.value.buffer, element.value.byteOffset, element.value.byteLength);
  let id: bigint;
  if (element.type === ElementType.int32) id = BigInt(view.getInt32(0, true));
  else if (element.type === ElementType.int64) id = view.getBigInt64(0, true);
  else return undefined;
  return id >= 0n ? id : undefined;
}

function checkId(element: Element | undefined, id: bigint | undefined): void {
  if (element === undefined || id !== undefined || element.type === ElementType.null) return;
  throw new MemberError(`id is not an unsigned integer but ${typeName(element)}`);
}

class ParamsError extends Error {}

function decodeParams(method: CallMethod, params: Element | undefined): Calls[CallMethod]["params"] {
  if (params !== undefined && params.type !== ElementType.document && params.type !== ElementType.null) {
    throw new ParamsError(`${method} params: not a document but ${typeName(params)}`);
  }
  const document = params === undefined || params.type === ElementType.null ? emptyDocument : params.value;
  try {
    return callCodecs[method].decodeParams(document);
  } catch (error) {
    if (error instanceof MemberError || error instanceof DocumentError) {
      throw new ParamsError(`${method} params: ${error.message}`);
    }
    throw error;
  }
}

function decodeResponse(
  members: ReadonlyMap<string, Element>,
  id: bigint | undefined,
  method: CallMethod | NotificationMethod | undefined,
): ResultResponse | ErrorResponse {
  const [result, error] = [members.get("result"), members.get("error")];
  if (members.has("params")) throw new MemberError("params and a result or error together");
  if (id === undefined) throw new MemberError("a response needs an id");
  if (result !== undefined && error !== undefined) throw new MemberError("result and error together");
  if (error !== undefined) return { kind: "error", id, error: decodeError(error) };
  if (method === undefined) throw new MemberError("a result needs the method that it answers");
  if (isNotificationMethod(method)) throw new MemberError(`${method} is not answered`);
  if (result?.type !== ElementType.document) throw new MemberError(`${method} result: not a document`);
  try {
    return { kind: "result", id, method, result: callCodecs[method].decodeResult(result.value) } as ResultResponse;
  } catch (cause) {
    if (cause instanceof MemberError || cause instanceof DocumentError) {
      throw new MemberError(`${method} result: ${cause.message}`);
    }
    throw cause;
  }
}

function decodeError(element: Element): ErrorResponse["error"] {
  if (element.type !== ElementType.document) throw new MemberError(`error is not a document but ${typeName(element)}`);
  const members = new Members(element.value, ["code", "message"], "error.");
  return {
    code: members.integer("code", { least: Number.MIN_SAFE_INTEGER, most: Number.MAX_SAFE_INTEGER }),
    message: members.string("message"),
  };
}

/**
 * A message as a frame: header and payload in pieces to be sent one after the other, large bytes uncopied.
 * Throws {@link FrameLimitError} when it is larger than a frame may be; nothing has been written then.
 */
export function encodeMessage(message: Message): Uint8Array[] {
  const document = messageDocument(message);
  const length = documentLength(document);
  if (length > maxPayload) throw new FrameLimitError(length, maxPayload);
  const pieces = writeDocument(document, length, frameHeaderBytes);
  const first = pieces[0] as Uint8Array;
  new DataView(first.buffer, first.byteOffset).setUint32(0, length, false);
  return pieces;
}

function messageDocument(message: Message): DocumentValue {
  const jsonrpc = protocolVersion;
  switch (message.kind) {
    case "request":
      return { jsonrpc, id: message.id, method: message.method, params: paramsDocument(message) };
    case "notification":
      return { jsonrpc, method: message.method };
    case "result":
      return { jsonrpc, id: message.id, method: message.method, result: resultDocument(message) };
    case "error": {
      const { code, message: text } = message.error;
      return { jsonrpc, id: message.id, error: { code: BigInt(code), message: text } };
    }
  }
}

/** Pairs a codec with the params of its own method, which TypeScript cannot see through the union. */
function paramsDocument({ method, params }: Request): DocumentValue {
  return (callCodecs[method].encodeParams as (params: unknown) => DocumentValue)(params);
}

function resultDocument({ method, result }: ResultResponse): DocumentValue {
  return (callCodecs[method].encodeResult as (result: unknown) => DocumentValue)(result);
}

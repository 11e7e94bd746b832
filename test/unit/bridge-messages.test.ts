import { describe, expect, test } from "bun:test";
import { EncodeError, encodeMessage } from "#protocol/bridge/encode.ts";
import { maxLineBytes } from "#protocol/bridge/lines.ts";
import type { BridgeMessage } from "#protocol/bridge/messages.ts";
import { parseCoreMessage, parseHostMessage } from "#protocol/bridge/parse.ts";

const line = (text: string) => new TextEncoder().encode(text);

/** every line of the session in the protocol's description, with its sender */
const session: [from: "host" | "core", text: string][] = [
  [
    "host",
    '{"t":"init","app":{"id":"dev.vmapp.notes","name":"Notes","version":"1.0.0"},"platform":{"os":"linux","arch":"arm64"},"folders":{"notes":"/host/f-notes","export":null},"data":"/data"}',
  ],
  ["core", '{"t":"ready"}'],
  [
    "core",
    '{"t":"request","id":1,"op":"window.create","params":{"entry":"index.html","width":980,"height":660,"title":"Notes","devTools":false}}',
  ],
  ["host", '{"t":"reply","id":1,"result":{"win":1}}'],
  ["host", '{"t":"invoke","id":7,"win":1,"channel":"notes:list","args":[]}'],
  ["core", '{"t":"result","id":7,"result":[{"name":"alpha.md","size":120}]}'],
  ["core", '{"t":"emit","win":1,"channel":"notes:changed","args":[["alpha.md"]]}'],
  ["core", '{"t":"request","id":2,"op":"dialog.open","params":{"directory":false,"multiple":false}}'],
  ["host", '{"t":"reply","id":2,"result":{"canceled":false,"paths":["/host/pick-0/ideas.txt"]}}'],
  ["host", '{"t":"window","win":1,"event":"closed","data":{}}'],
  ["core", '{"t":"request","id":3,"op":"app.quit","params":{}}'],
];

describe("the recorded session", () => {
  test.each(session)("from the %s: %s is read and written again byte for byte", (from, text) => {
    const parsed = from === "host" ? parseHostMessage(line(text)) : parseCoreMessage(line(text));
    if (parsed.kind !== "message") throw new Error(`not a message: ${JSON.stringify(parsed)}`);
    expect(encodeMessage(parsed.message as BridgeMessage)).toBe(`${text}\n`);
  });

  test.each(session)("from the %s: %s is a type that the other direction does not know", (from, text) => {
    const parsed = from === "host" ? parseCoreMessage(line(text)) : parseHostMessage(line(text));
    expect(parsed.kind).toBe("unknown");
  });
});

describe("reading", () => {
  test("an empty line is told apart from a bad one", () => {
    expect(parseHostMessage(line("")).kind).toBe("empty");
  });

  test.each([
    ["text that is not JSON", "hello"],
    ["an array", "[1]"],
    ["null", "null"],
    ["a number", "7"],
    ["an object without t", "{}"],
    ["a t that is not a string", '{"t":1}'],
    ["an invoke without an id", '{"t":"invoke","win":1,"channel":"c","args":[]}'],
    ["an id that is not an integer", '{"t":"invoke","id":1.5,"win":1,"channel":"c","args":[]}'],
    ["args that are not an array", '{"t":"send","win":1,"channel":"c","args":{}}'],
    ["a folder that is not a path", '{"t":"init","folders":{"a":1},"data":"/data"}'],
  ])("%s is malformed", (_, text) => {
    expect(parseHostMessage(line(text)).kind).toBe("malformed");
  });

  test("bytes that are not UTF-8 are malformed, even inside a JSON string", () => {
    const bad = Buffer.concat([line('{"t":"ready","x":"'), Uint8Array.of(0xff), line('"}')]);
    expect(parseCoreMessage(bad).kind).toBe("malformed");
  });

  test("a malformed call keeps its id, so that it can be answered", () => {
    expect(parseHostMessage(line('{"t":"invoke","id":9,"win":1,"channel":4,"args":[]}'))).toEqual({
      kind: "malformed",
      reason: 'invoke: "channel" is not a string',
      t: "invoke",
      id: 9,
    });
  });

  test("an unknown type is named", () => {
    expect(parseCoreMessage(line('{"t":"stream","id":1}'))).toEqual({ kind: "unknown", t: "stream" });
  });

  test("fields that a message does not know are left out", () => {
    expect(parseCoreMessage(line('{"t":"ready","extra":1}'))).toEqual({ kind: "message", message: { t: "ready" } });
  });

  test("an error counts, an error of null does not, and neither field is malformed", () => {
    const read = (text: string) => parseCoreMessage(line(text));
    expect(read('{"t":"result","id":1,"result":5,"error":null}')).toEqual({
      kind: "message",
      message: { t: "result", id: 1, result: 5 },
    });
    expect(read('{"t":"result","id":1,"error":{"message":"no","code":"x","more":1}}')).toEqual({
      kind: "message",
      message: { t: "result", id: 1, error: { message: "no", code: "x" } },
    });
    expect(read('{"t":"result","id":1}')).toMatchObject({ kind: "malformed", t: "result", id: 1 });
  });
});

describe("writing", () => {
  const cycle: { self?: unknown } = {};
  cycle.self = cycle;

  test.each([
    ["undefined", undefined],
    ["a function", () => 1],
    ["a cycle", cycle],
    ["a BigInt", { deep: [1n] }],
  ])("%s is refused as a result and as an argument, and the call is named", (_, value) => {
    const result = () => encodeMessage({ t: "result", id: 1, result: value });
    expect(result).toThrow(EncodeError);
    expect(result).toThrow("JSON cannot carry the result");
    const emit = () => encodeMessage({ t: "emit", win: 1, channel: "c", args: [0, value] });
    expect(emit).toThrow('JSON cannot carry argument 2 of "c"');
  });

  test("a line of exactly 16 MiB is written, one byte more is refused, counted in bytes and not in characters", () => {
    const around = Buffer.byteLength('{"t":"result","id":1,"result":""}');
    const fits = "é".repeat((maxLineBytes - around - 1) / 2);
    expect(encodeMessage({ t: "result", id: 1, result: `${fits}a` }).length).toBeGreaterThan(8_000_000);
    const over = () => encodeMessage({ t: "result", id: 1, result: `${fits}aa` });
    expect(over).toThrow(`a message of ${maxLineBytes + 1} bytes exceeds the limit of ${maxLineBytes}`);
  });
});

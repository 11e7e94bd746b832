import { expect, test } from "bun:test";
import fc from "fast-check";
import { encodeMessage } from "#protocol/bridge/encode.ts";
import { LineDecoder } from "#protocol/bridge/lines.ts";
import { parseCoreMessage, parseHostMessage } from "#protocol/bridge/parse.ts";
import { looksSecret, previewCharacters, previewValue } from "#protocol/bridge/preview.ts";

const seed = Number(process.env.VMAPP_FUZZ_SEED ?? Date.now() % 1_000_000_000);
const numRuns = process.env.VMAPP_FULL === "1" ? 100_000 : 3_000;
/** fast-check prints the seed and the smallest failing input */
const runs = { seed, numRuns };

function cut(stream: Uint8Array, sizes: readonly number[]): Uint8Array[] {
  const chunks: Uint8Array[] = [];
  let offset = 0;
  for (const size of sizes) {
    chunks.push(stream.slice(offset, offset + size));
    offset += size;
  }
  chunks.push(stream.slice(offset));
  return chunks;
}

function linesOf(chunks: readonly Uint8Array[]): string[] {
  const decoder = new LineDecoder();
  const lines: string[] = [];
  for (const chunk of chunks) {
    decoder.push(chunk);
    for (let line = decoder.next(); line !== undefined; line = decoder.next())
      lines.push(Buffer.from(line).toString("latin1"));
  }
  return lines;
}

test("lines come out the same however the stream is cut", () => {
  const bytes = fc.uint8Array({ maxLength: 300 }).map((array) => array.map((byte) => (byte < 40 ? 0x0a : byte)));
  fc.assert(
    fc.property(bytes, fc.array(fc.nat(40)), (stream, sizes) => {
      const whole = Buffer.from(stream).toString("latin1").split("\n").slice(0, -1);
      expect(linesOf(cut(stream, sizes))).toEqual(whole);
    }),
    runs,
  );
});

test("no bytes make a parser throw, and what it takes can be written and read again", () => {
  const mutated = fc
    .tuple(
      fc.constantFrom(
        '{"t":"invoke","id":7,"win":1,"channel":"c","args":[1,{"a":"b"}]}',
        '{"t":"result","id":7,"error":{"message":"m"}}',
        '{"t":"init","app":{"id":"i"},"platform":{},"folders":{"n":null},"data":"/d"}',
        '{"t":"request","id":1,"op":"window.create","params":{}}',
        '{"t":"emit","win":null,"channel":"c","args":[]}',
      ),
      fc.array(fc.tuple(fc.nat(80), fc.nat(255)), { maxLength: 3 }),
    )
    .map(([text, edits]) => {
      const bytes = Buffer.from(text);
      for (const [at, byte] of edits) bytes[at % bytes.length] = byte;
      return new Uint8Array(bytes);
    });
  fc.assert(
    fc.property(fc.oneof(fc.uint8Array({ maxLength: 200 }), mutated), (line) => {
      for (const parse of [parseHostMessage, parseCoreMessage]) {
        const parsed = parse(line);
        if (parsed.kind !== "message") continue;
        const again = parse(new TextEncoder().encode(encodeMessage(parsed.message).slice(0, -1)));
        expect(JSON.stringify(again)).toBe(JSON.stringify(parsed));
      }
    }),
    runs,
  );
});

test("a value without secrets is previewed as the head of its JSON", () => {
  fc.assert(
    fc.property(fc.jsonValue(), (value) => {
      const json = JSON.stringify(value);
      fc.pre(!/sk-|\[hidden\]/.test(json) && !looksSecret(json));
      expect(previewValue(value)).toBe(Array.from(json).slice(0, previewCharacters).join(""));
    }),
    runs,
  );
});

test("a secret never shows, wherever in a value it is", () => {
  const secret = "sk-QQQQQQQQQQQQQQQQQQQQQQQQ";
  const text = fc.string({ maxLength: 80 }).map((plain) => plain.replaceAll("Q", "q"));
  const place = fc.letrec((tie) => ({
    node: fc.oneof(
      { maxDepth: 5 },
      fc.constant<unknown>(secret),
      fc.record({ password: fc.constant("QQQQ"), a: tie("node") }),
      fc.tuple(text, tie("node")),
      fc.tuple(text, text).map(([a, b]) => `${a}${secret}${b}`),
    ),
  })).node;
  fc.assert(
    fc.property(place, (value) => {
      expect(previewValue(value)).not.toContain("QQ");
    }),
    runs,
  );
});

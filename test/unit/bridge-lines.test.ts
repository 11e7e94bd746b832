import { describe, expect, test } from "bun:test";
import { LineDecoder, LineLimitError, maxLineBytes } from "#protocol/bridge/lines.ts";

const bytes = (text: string) => new TextEncoder().encode(text);

function decodeAll(decoder: LineDecoder, chunk: Uint8Array): string[] {
  const lines: string[] = [];
  decoder.push(chunk);
  for (let line = decoder.next(); line !== undefined; line = decoder.next()) lines.push(Buffer.from(line).toString());
  return lines;
}

describe("cutting lines", () => {
  test("several lines in one chunk come out one by one, an empty line included", () => {
    expect(decodeAll(new LineDecoder(), bytes("a\n\nbc\nrest"))).toEqual(["a", "", "bc"]);
  });

  test("a line survives every place at which its bytes may be split, in the middle of a character too", () => {
    const stream = bytes('{"t":"emit","s":"häß€😀"}\n{"t":"ready"}\n');
    for (let cut = 0; cut <= stream.length; cut += 1) {
      const decoder = new LineDecoder();
      const lines = [...decodeAll(decoder, stream.slice(0, cut)), ...decodeAll(decoder, stream.slice(cut))];
      expect(lines).toEqual(['{"t":"emit","s":"häß€😀"}', '{"t":"ready"}']);
    }
  });

  test("a line that arrives a byte at a time comes out whole", () => {
    const decoder = new LineDecoder();
    const text = "x".repeat(5000);
    const lines = [...bytes(`${text}\n`)].flatMap((byte) => decodeAll(decoder, Uint8Array.of(byte)));
    expect(lines).toEqual([text]);
    expect(decoder.pendingBytes).toBe(0);
  });

  test("a line in pieces of every size keeps its order, and the next one starts afresh", () => {
    const decoder = new LineDecoder();
    const text = Array.from({ length: 30_000 }, (_, index) => `${index},`).join("");
    const stream = bytes(`${text}\n${text}\n`);
    const sizes = [1, 4095, 3, 4096, 511, 5000, 1, 1];
    const lines: string[] = [];
    for (let offset = 0, turn = 0; offset < stream.length; turn += 1) {
      const size = turn % 2000 < 1500 ? 7 : (sizes[turn % sizes.length] as number);
      lines.push(...decodeAll(decoder, stream.slice(offset, offset + size)));
      offset += size;
    }
    expect(lines.map((line) => line === text)).toEqual([true, true]);
    expect(decoder.pendingBytes).toBe(0);
  });

  test("a line over the limit is refused however small its pieces are", () => {
    const decoder = new LineDecoder(2000);
    const push = () => {
      decoder.push(Uint8Array.of(0x61));
      return decoder.next();
    };
    for (let count = 0; count < 2000; count += 1) push();
    expect(push).toThrow(LineLimitError);
  });

  test("a line of exactly 16 MiB is taken", () => {
    const decoder = new LineDecoder();
    const line = Buffer.alloc(maxLineBytes + 1, 0x61);
    line[maxLineBytes] = 0x0a;
    decoder.push(line.subarray(0, 1000));
    expect(decoder.next()).toBeUndefined();
    decoder.push(line.subarray(1000));
    expect(decoder.next()?.length).toBe(maxLineBytes);
  });

  test("a line of 16 MiB and a byte is refused before its newline has come", () => {
    const decoder = new LineDecoder();
    decoder.push(Buffer.alloc(maxLineBytes));
    expect(decoder.next()).toBeUndefined();
    decoder.push(Uint8Array.of(0x61));
    expect(() => decoder.next()).toThrow(LineLimitError);
  });

  test("a line over the limit is refused when its newline came with it", () => {
    const decoder = new LineDecoder(4);
    decoder.push(bytes("good\n12345\n"));
    expect(Buffer.from(decoder.next() ?? []).toString()).toBe("good");
    expect(() => decoder.next()).toThrow("a line of more than 4 bytes");
  });
});

import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import {
  decodeClientFrame,
  decodeFrame,
  encodeFrame,
  encodeRawFrame,
  frameType,
  maxPayloadBytes,
  RawFrameDecoder,
  type ShellFrame,
  ShellFrameError,
} from "#protocol/shell/frames.ts";
import { encodeStart } from "#protocol/shell/start.ts";

const seed = Number(process.env.VMAPP_FUZZ_SEED ?? Date.now() % 1_000_000_000);
const bytes = (text: string) => Buffer.from(text);
const hex = (text: string) => Buffer.from(text.replaceAll(" ", ""), "hex");

/** The contract's vectors: those that both of its test suites assert, then those derived from its rules. */
const vectors: readonly (readonly [string, ShellFrame, string])[] = [
  ["resize 24 rows × 80 cols", { type: "resize", rows: 24, cols: 80 }, "04 00000004 0018 0050"],
  ["window 262144", { type: "window", bytes: 262_144 }, "15 00000004 00040000"],
  ["stdinEOF", { type: "stdinEof" }, "03 00000000"],
  ["signal SIGINT", { type: "signal", number: 2 }, "05 00000001 02"],
  ["started", { type: "started" }, "14 00000000"],
  ["exit 130", { type: "exit", code: 130 }, "12 00000004 00000082"],
];

/** The numbers of the two tables of frame types. */
const numbers: readonly (readonly [number, ShellFrame])[] = [
  [1, { type: "start", payload: bytes("{}") }],
  [2, { type: "stdin", bytes: bytes("in") }],
  [3, { type: "stdinEof" }],
  [4, { type: "resize", rows: 0xffff, cols: 1 }],
  [5, { type: "signal", number: 255 }],
  [16, { type: "stdout", bytes: bytes("out") }],
  [17, { type: "stderr", bytes: bytes("err") }],
  [18, { type: "exit", code: -(2 ** 31) }],
  [19, { type: "error", message: "schön ☃" }],
  [20, { type: "started" }],
  [21, { type: "window", bytes: 0xffffffff }],
  [22, { type: "offset", position: 2n ** 64n - 1n }],
];

function decodeAll(stream: Uint8Array): ShellFrame[] {
  const decoder = new RawFrameDecoder();
  decoder.push(stream);
  const frames: ShellFrame[] = [];
  for (let raw = decoder.next(); raw !== undefined; raw = decoder.next()) frames.push(decodeFrame(raw));
  return frames;
}

describe("test vectors of the contract", () => {
  test.each(vectors)("%s is written to the letter and read back", (_name, frame, wire) => {
    expect(Buffer.from(encodeFrame(frame)).toString("hex")).toBe(hex(wire).toString("hex"));
    expect(decodeAll(hex(wire))).toEqual([frame]);
  });

  test("start with the 82-byte payload is written to the letter", () => {
    const payload = '{"argv":["uname","-a"],"tty":false,"rows":24,"cols":80,"term":"xterm","flow":true}';
    const start = { argv: ["uname", "-a"], tty: false, rows: 24, cols: 80, term: "xterm", flow: true };
    const frame = encodeFrame({ type: "start", payload: encodeStart(start) });
    expect(Buffer.from(frame.subarray(0, 5)).toString("hex")).toBe("0100000052");
    expect(Buffer.from(frame.subarray(5)).toString()).toBe(payload);
  });
});

describe("frame types", () => {
  test.each(numbers)("type %d is written and read as its own frame", (number, frame) => {
    const wire = encodeFrame(frame);
    expect(wire[0]).toBe(number);
    const [decoded] = decodeAll(wire);
    expect(decoded).toEqual(frame);
  });

  test("an exit code is signed: -1 is ffffffff on the wire", () => {
    expect(Buffer.from(encodeFrame({ type: "exit", code: -1 })).toString("hex")).toBe("1200000004ffffffff");
    expect(decodeAll(hex("12 00000004 ffffffff"))).toEqual([{ type: "exit", code: -1 }]);
  });

  test.each([
    ["rows", { type: "resize", rows: 0x10000, cols: 1 }],
    ["cols", { type: "resize", rows: 1, cols: -1 }],
    ["rows", { type: "resize", rows: 1.5, cols: 1 }],
    ["signal", { type: "signal", number: 256 }],
    ["exit code", { type: "exit", code: 2 ** 31 }],
    ["window", { type: "window", bytes: 2 ** 32 }],
    ["window", { type: "window", bytes: Number.NaN }],
  ] satisfies [string, ShellFrame][])("a number outside its field is refused, naming %s", (field, frame) => {
    expect(() => encodeFrame(frame)).toThrow(RangeError);
    expect(() => encodeFrame(frame)).toThrow(field);
  });
});

describe("the limit of 1 MiB", () => {
  test.each([maxPayloadBytes - 1, maxPayloadBytes])("a payload of %d bytes is written and read", (size) => {
    const [frame] = decodeAll(encodeFrame({ type: "stdin", bytes: new Uint8Array(size) }));
    expect(frame).toMatchObject({ type: "stdin" });
    expect(frame?.type === "stdin" ? frame.bytes.length : -1).toBe(size);
  });

  test("a payload of one byte more is not written", () => {
    const big = new Uint8Array(maxPayloadBytes + 1);
    expect(() => encodeFrame({ type: "stdin", bytes: big })).toThrow(ShellFrameError);
    expect(() => encodeRawFrame(99, big)).toThrow("1048577 bytes exceeds the limit of 1048576");
  });

  test.each([maxPayloadBytes + 1, 0x7fffffff, 0xffffffff])(
    "a header announcing %d bytes is refused at once",
    (size) => {
      const decoder = new RawFrameDecoder();
      const header = Buffer.alloc(5);
      header[0] = frameType.stdout;
      header.writeUInt32BE(size, 1);
      decoder.push(header);
      expect(() => decoder.next()).toThrow(ShellFrameError);
    },
  );
});

const anyBytes = fc.uint8Array({ maxLength: 100 });

describe("cutting a stream into frames", () => {
  test("a header cut anywhere waits, and what is missing is known", () => {
    const wire = encodeFrame({ type: "stdout", bytes: bytes("abc") });
    for (let cut = 0; cut < wire.length; cut += 1) {
      const decoder = new RawFrameDecoder();
      decoder.push(wire.subarray(0, cut));
      expect(decoder.next()).toBeUndefined();
      expect(decoder.pendingBytes).toBe(cut);
      decoder.push(wire.subarray(cut));
      expect(decoder.next()?.payload.length).toBe(3);
      expect(decoder.pendingBytes).toBe(0);
    }
  });

  const anyFrame: fc.Arbitrary<ShellFrame> = fc.oneof(
    fc.record({ type: fc.constant("start" as const), payload: anyBytes }),
    fc.record({ type: fc.constantFrom("stdin", "stdout", "stderr"), bytes: anyBytes }) as fc.Arbitrary<ShellFrame>,
    fc.constantFrom<ShellFrame>({ type: "stdinEof" }, { type: "started" }),
    fc.record({ type: fc.constant("resize" as const), rows: fc.nat(0xffff), cols: fc.nat(0xffff) }),
    fc.record({ type: fc.constant("signal" as const), number: fc.nat(255) }),
    fc.record({ type: fc.constant("exit" as const), code: fc.integer() }),
    fc.record({ type: fc.constant("error" as const), message: fc.string({ unit: "grapheme" }) }),
    fc.record({ type: fc.constant("window" as const), bytes: fc.integer({ min: 0, max: 0xffffffff }) }),
    fc.record({ type: fc.constant("offset" as const), position: fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }) }),
  );

  test("any frames come back as they were written, under any chunking", () => {
    fc.assert(
      fc.property(fc.array(anyFrame, { maxLength: 10 }), fc.array(fc.integer({ min: 1, max: 60 })), (frames, cuts) => {
        const stream = Buffer.concat(frames.map(encodeFrame));
        const decoder = new RawFrameDecoder();
        const got: ShellFrame[] = [];
        let offset = 0;
        for (const cut of [...cuts, stream.length]) {
          decoder.push(Uint8Array.from(stream.subarray(offset, offset + cut)));
          offset += cut;
          for (let raw = decoder.next(); raw !== undefined; raw = decoder.next()) got.push(decodeFrame(raw));
        }
        expect(got).toEqual(frames);
        expect(decoder.pendingBytes).toBe(0);
      }),
      { seed, numRuns: 500 },
    );
  });
});

describe("streamed frames", () => {
  test("come out in the pieces that they arrive in, and other frames whole", () => {
    const stream = Buffer.concat([
      encodeFrame({ type: "stdout", bytes: bytes("hello") }),
      encodeFrame({ type: "exit", code: 0 }),
    ]);
    const decoder = new RawFrameDecoder({ streamed: [frameType.stdout] });
    const got: [number, string][] = [];
    for (const piece of [stream.subarray(0, 7), stream.subarray(7, 9), stream.subarray(9, 12), stream.subarray(12)]) {
      decoder.push(piece);
      for (let raw = decoder.next(); raw !== undefined; raw = decoder.next())
        got.push([raw.type, Buffer.from(raw.payload).toString("latin1")]);
    }
    expect(got).toEqual([
      [16, "he"],
      [16, "ll"],
      [16, "o"],
      [18, "\0\0\0\0"],
    ]);
  });

  test("of no payload come out once, and those over the limit not at all", () => {
    const decoder = new RawFrameDecoder({ streamed: [frameType.stdout] });
    decoder.push(encodeFrame({ type: "stdout", bytes: bytes("") }));
    expect(decoder.next()).toEqual({ type: 16, payload: new Uint8Array(0) });
    expect(decoder.next()).toBeUndefined();
    decoder.push(Uint8Array.of(16, 0, 0x10, 0, 1));
    expect(() => decoder.next()).toThrow(ShellFrameError);
  });

  test("carry the same bytes as whole ones, under any chunking", () => {
    const outputs = fc.array(fc.tuple(fc.constantFrom("stdout" as const, "stderr" as const), anyBytes), {
      maxLength: 8,
    });
    fc.assert(
      fc.property(outputs, fc.array(fc.integer({ min: 1, max: 60 })), (wanted, cuts) => {
        const stream = Buffer.concat(wanted.map(([type, payload]) => encodeFrame({ type, bytes: payload })));
        const decoder = new RawFrameDecoder({ streamed: [frameType.stdout, frameType.stderr] });
        const got = { stdout: "", stderr: "" };
        let offset = 0;
        for (const cut of [...cuts, stream.length]) {
          decoder.push(stream.subarray(offset, offset + cut));
          offset += cut;
          for (let raw = decoder.next(); raw !== undefined; raw = decoder.next())
            got[raw.type === frameType.stdout ? "stdout" : "stderr"] += Buffer.from(raw.payload).toString("hex");
        }
        const all = (type: "stdout" | "stderr") =>
          wanted.map(([name, payload]) => (name === type ? Buffer.from(payload).toString("hex") : "")).join("");
        expect(got).toEqual({ stdout: all("stdout"), stderr: all("stderr") });
      }),
      { seed, numRuns: 300 },
    );
  });
});

describe("client strictness", () => {
  test.each([0, 6, 7, 14, 15, 23, 128, 255])("the unassigned type %d is refused by number", (type) => {
    expect(() => decodeFrame({ type, payload: bytes("x") })).toThrow(`unknown frame type ${type}`);
  });

  test.each([
    ["resize", frameType.resize, 4],
    ["signal", frameType.signal, 1],
    ["exit", frameType.exit, 4],
    ["window", frameType.window, 4],
    ["offset", frameType.offset, 8],
  ])("%s of a wrong size is refused by name", (name, type, size) => {
    for (const wrong of [0, size - 1, size + 1, size * 2]) {
      if (wrong === size) continue;
      const decode = () => decodeFrame({ type, payload: new Uint8Array(wrong) });
      expect(decode).toThrow(ShellFrameError);
      expect(decode).toThrow(`${name} has a payload of ${wrong} bytes instead of ${size}`);
    }
    expect(decodeFrame({ type, payload: new Uint8Array(size) }).type as string).toBe(name);
  });

  test("started and stdinEOF are known by their type alone", () => {
    expect(decodeFrame({ type: frameType.started, payload: bytes("future") })).toEqual({ type: "started" });
    expect(decodeFrame({ type: frameType.stdinEof, payload: bytes("future") })).toEqual({ type: "stdinEof" });
  });

  test("an error message that is not UTF-8 is still a message", () => {
    const frame = decodeFrame({ type: frameType.error, payload: Uint8Array.of(0x41, 0xff) });
    expect(frame).toEqual({ type: "error", message: "A\ufffd" });
  });
});

describe("agent leniency", () => {
  test.each([0, 6, 15, 16, 17, 18, 19, 20, 21, 22, 23, 255])("type %d is ignored with a reason", (type) => {
    expect(decodeClientFrame({ type, payload: bytes("x") })).toEqual({
      type: "ignored",
      reason: `unknown frame type ${type}`,
    });
  });

  test.each([
    ["resize", frameType.resize, 4],
    ["signal", frameType.signal, 1],
  ])("%s of a wrong size is ignored with a reason", (name, type, size) => {
    for (const wrong of [0, size + 1, 100])
      expect(decodeClientFrame({ type, payload: new Uint8Array(wrong) })).toEqual({
        type: "ignored",
        reason: `${name} has a payload of ${wrong} bytes instead of ${size}`,
      });
  });

  test("every client frame passes", () => {
    for (const [type, frame] of numbers.slice(0, 5)) {
      const wire = encodeFrame(frame);
      expect(decodeClientFrame({ type, payload: wire.subarray(5) })).toEqual(frame as never);
    }
  });
});

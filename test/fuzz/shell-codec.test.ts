/** Both ends' decoders of the shell protocol against damaged streams: typed errors only, no hang, bounded memory. */
import { expect, setDefaultTimeout, test } from "bun:test";
import { StdinCredit } from "#host/clients/shell/credit.ts";
import { decodeStart, StartError } from "#protocol/shell/decode-start.ts";
import {
  decodeClientFrame,
  decodeFrame,
  encodeFrame,
  maxPayloadBytes,
  RawFrameDecoder,
  type ShellFrame,
  ShellFrameError,
} from "#protocol/shell/frames.ts";
import { encodeStart } from "#protocol/shell/start.ts";
import { chooseSeed, damage, inputCount, pieces, Random } from "#test/shell/mutations.ts";

setDefaultTimeout(600_000);

const seed = chooseSeed();
const inputs = inputCount(1_000_000);
const text = (value: string) => Buffer.from(value);

const clientStream: readonly ShellFrame[] = [
  {
    type: "start",
    payload: encodeStart({
      argv: ["cat", "-n"],
      tty: true,
      rows: 24,
      cols: 80,
      term: "xterm",
      flow: true,
      env: { A: "b" },
    }),
  },
  { type: "stdin", bytes: text("some input\n") },
  { type: "resize", rows: 50, cols: 132 },
  { type: "signal", number: 2 },
  { type: "stdin", bytes: text("") },
  { type: "stdinEof" },
];
const agentStream: readonly ShellFrame[] = [
  { type: "window", bytes: 262_144 },
  { type: "started" },
  { type: "stdout", bytes: text("some output\n") },
  { type: "offset", position: 12n },
  { type: "window", bytes: 11 },
  { type: "stderr", bytes: text("an error\n") },
  { type: "exit", code: 130 },
];
const refusedStream: readonly ShellFrame[] = [{ type: "error", message: "cannot run x: reason" }];
const streams = [clientStream, agentStream, refusedStream].map((frames) => Buffer.concat(frames.map(encodeFrame)));

/** What both ends make of a stream. Throws for anything that is not a typed refusal. */
function readBothWays(stream: Uint8Array, random: Random): { frames: number; refused: number } {
  const decoder = new RawFrameDecoder();
  const credit = new StdinCredit();
  const outcome = { frames: 0, refused: 0 };
  try {
    for (const piece of pieces(stream, random)) {
      decoder.push(piece);
      for (let raw = decoder.next(); raw !== undefined; raw = decoder.next()) {
        outcome.frames += 1;
        if (raw.payload.length > maxPayloadBytes) throw new Error("a payload over the limit came out");
        const asAgent = decodeClientFrame(raw);
        if (asAgent.type === "ignored") outcome.refused += 1;
        if (asAgent.type === "start") readStart(asAgent.payload);
        const asClient = refusedOrFrame(() => decodeFrame(raw));
        if (asClient === undefined) outcome.refused += 1;
        else checkFields(asClient, credit);
      }
      if (decoder.pendingBytes > stream.length) throw new Error("more bytes wait than arrived");
    }
  } catch (error) {
    if (!(error instanceof ShellFrameError)) throw error;
    outcome.refused += 1;
  }
  return outcome;
}

function refusedOrFrame(decode: () => ShellFrame): ShellFrame | undefined {
  try {
    return decode();
  } catch (error) {
    if (!(error instanceof ShellFrameError)) throw error;
    return undefined;
  }
}

function readStart(payload: Uint8Array): void {
  try {
    const { argv, rows, cols } = decodeStart(payload);
    if (argv.length === 0 || rows < 1 || rows > 0xffff || cols < 1 || cols > 0xffff)
      throw new Error("a start out of range");
  } catch (error) {
    if (!(error instanceof StartError)) throw error;
  }
}

function checkFields(frame: ShellFrame, credit: StdinCredit): void {
  if (frame.type === "window") {
    credit.add(frame.bytes);
    const taken = credit.take(65_536);
    if (taken < 0 || taken > 65_536) throw new Error(`${taken} bytes of credit`);
  }
  if (frame.type === "exit" && (frame.code | 0) !== frame.code) throw new Error(`an exit code of ${frame.code}`);
  // What was read can be written again, unless its text was not UTF-8.
  if (frame.type !== "error") encodeFrame(frame);
}

test(`${inputs} damaged streams of both ends: only typed errors, and memory stays bounded`, () => {
  const random = new Random(seed);
  let frames = 0;
  let refused = 0;
  Bun.gc(true);
  const before = process.memoryUsage().rss;
  for (let index = 0; index < inputs; index += 1) {
    const stream = damage(random.pick(streams), random);
    try {
      const outcome = readBothWays(stream, random);
      frames += outcome.frames;
      refused += outcome.refused;
    } catch (error) {
      throw new Error(`seed ${seed}, input ${index}, ${Buffer.from(stream).toString("hex")}`, { cause: error });
    }
  }
  Bun.gc(true);
  expect(process.memoryUsage().rss - before).toBeLessThan(256 * 2 ** 20);
  // Damage that refuses everything, or nothing, would prove little.
  expect(frames).toBeGreaterThan(inputs);
  expect(refused).toBeGreaterThan(inputs / 4);
});

test("streams without damage are read to the end, however they are cut", () => {
  const random = new Random(seed);
  for (let index = 0; index < 2_000; index += 1) {
    const decoder = new RawFrameDecoder();
    const got: ShellFrame[] = [];
    for (const piece of pieces(streams[1] as Uint8Array, random)) {
      decoder.push(piece);
      for (let raw = decoder.next(); raw !== undefined; raw = decoder.next()) got.push(decodeFrame(raw));
    }
    expect(got.map(({ type }) => type)).toEqual(agentStream.map(({ type }) => type));
  }
});

import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { decodeStart, StartError } from "#protocol/shell/decode-start.ts";
import { encodeStart, type ResolvedStart } from "#protocol/shell/start.ts";

const seed = Number(process.env.VMAPP_FUZZ_SEED ?? Date.now() % 1_000_000_000);

const defaults: ResolvedStart = {
  argv: ["/bin/sh", "-l"],
  tty: false,
  rows: 24,
  cols: 80,
  term: "xterm-256color",
  flow: false,
  env: {},
  cwd: undefined,
  user: undefined,
  session: undefined,
  since: undefined,
};

function decode(value: unknown): ResolvedStart {
  return decodeStart(Buffer.from(JSON.stringify(value)));
}

function refusal(payload: string | Uint8Array): string {
  try {
    decodeStart(Buffer.from(payload));
  } catch (error) {
    expect(error).toBeInstanceOf(StartError);
    return (error as StartError).message;
  }
  throw new Error("was taken");
}

describe("the start frame's keys", () => {
  test("an empty object is a login shell on pipes with every default", () => {
    expect(decode({})).toEqual(defaults);
  });

  test.each(["argv", "tty", "rows", "cols", "term", "flow", "env", "cwd", "user", "session", "since"])(
    "%s: null is as good as absent",
    (key) => {
      expect(decode({ [key]: null })).toEqual(defaults);
    },
  );

  test.each([
    ["argv", { argv: [] }, { argv: ["/bin/sh", "-l"] }],
    ["tty", { tty: false }, { tty: false }],
    ["rows", { rows: 0 }, { rows: 24 }],
    ["cols", { cols: 0 }, { cols: 80 }],
    ["term", { term: "" }, { term: "xterm-256color" }],
    ["flow", { flow: false }, { flow: false }],
  ])("%s: empty or zero is the default of the table", (_key, given, expected) => {
    expect(decode(given)).toEqual({ ...defaults, ...expected });
  });

  test.each([
    ["argv", { argv: ["ls", "-l", ""] }],
    ["tty", { tty: true }],
    ["rows", { rows: 65_535 }],
    ["rows", { rows: 1 }],
    ["cols", { cols: 65_535 }],
    ["cols", { cols: 1 }],
    ["term", { term: "vt100" }],
    ["flow", { flow: true }],
    ["env", { env: { A: "1", B: "" } }],
    ["cwd", { cwd: "/tmp" }],
    ["user", { user: "1000:100" }],
    ["session", { session: "work" }],
    ["since", { since: 2 ** 40 }],
  ])("%s: a value of the right type is taken as it is", (_key, given) => {
    expect(decode(given)).toEqual({ ...defaults, ...given });
  });

  test.each([
    ["argv", "ls"],
    ["argv", {}],
    ["argv", true],
    ["tty", "yes"],
    ["tty", 1],
    ["rows", "24"],
    ["rows", -1],
    ["rows", 65_536],
    ["rows", 1.5],
    ["cols", []],
    ["cols", -1],
    ["cols", 65_536],
    ["term", 5],
    ["flow", 0],
    ["env", "A=1"],
    ["cwd", 1],
    ["user", 0],
    ["session", 1],
    ["session", ""],
    ["since", -1],
    ["since", "0"],
  ])("%s: a value of the wrong type, %j, is refused and the key is named", (key, value) => {
    expect(refusal(JSON.stringify({ [key]: value }))).toStartWith(`${key}: `);
  });

  test("the place inside argv and env is named too, and what was expected", () => {
    expect(refusal('{"argv":["ls",7]}')).toMatch(/^argv\.1: .*string/);
    expect(refusal('{"env":{"A":7}}')).toMatch(/^env\.A: .*string/);
    expect(refusal('{"rows":70000}')).toContain("65535");
  });

  test("unknown keys and the order of keys do not matter", () => {
    expect(decode({ future: [1], flow: true, argv: ["ls"], __proto__: 1 })).toEqual({
      ...defaults,
      flow: true,
      argv: ["ls"],
    });
  });

  test.each([
    ["no JSON", "argv"],
    ["a cut object", '{"argv":["ls"'],
    ["nothing at all", ""],
    ["a second value behind the first", "{}{}"],
    ["bytes that are not UTF-8", Uint8Array.of(0x7b, 0x22, 0xff, 0x22, 0x7d)],
  ])("%s is refused as not valid JSON", (_name, payload) => {
    expect(refusal(payload)).toStartWith("start is not valid JSON: ");
  });

  test.each(["null", "[]", '"{}"', "1", "true"])("%s is refused, because a start is an object", (payload) => {
    expect(refusal(payload)).toStartWith("start: ");
  });

  test("what a client writes is what the agent reads", () => {
    const text = fc.string({ unit: "grapheme", maxLength: 12 });
    const start = fc.record({
      argv: fc.array(text, { minLength: 1, maxLength: 4 }),
      tty: fc.boolean(),
      rows: fc.integer({ min: 1, max: 0xffff }),
      cols: fc.integer({ min: 1, max: 0xffff }),
      term: fc.string({ minLength: 1, maxLength: 12 }),
      flow: fc.boolean(),
      env: fc.dictionary(fc.stringMatching(/^[A-Z]{1,8}$/), text, { noNullPrototype: true }),
      cwd: text,
      user: text,
    });
    fc.assert(
      fc.property(start, (given) => {
        expect(decodeStart(encodeStart(given))).toEqual({ ...defaults, ...given });
      }),
      { seed, numRuns: 300 },
    );
  });
});

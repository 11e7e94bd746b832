import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { decodeBootConfig, encodeBootConfig, maxBootConfigBytes } from "#protocol/boot-config.ts";

const word = (value: unknown) => `vmapp.config=${Buffer.from(JSON.stringify(value)).toString("base64url")}`;

describe("boot config", () => {
  test("comes back from a kernel command line as it was put there", () => {
    const config = { hostname: "web-1.example", logLevel: "warn" } as const;
    const line = `console=ttyS0 quiet ${encodeBootConfig(config)} panic=-1\n`;
    expect(decodeBootConfig(line)).toEqual({ config, problems: [] });
  });

  test("is one word of printable ASCII", () => {
    expect(encodeBootConfig({ hostname: "a" })).toMatch(/^vmapp\.config=[A-Za-z0-9_-]+$/);
  });

  test("is empty, without a problem, when the command line has none", () => {
    expect(decodeBootConfig("console=ttyS0 notvmapp.config=x")).toEqual({ config: {}, problems: [] });
  });

  test("takes the last word when there are several", () => {
    const line = `${encodeBootConfig({ hostname: "first" })} ${encodeBootConfig({ hostname: "last" })}`;
    expect(decodeBootConfig(line).config).toEqual({ hostname: "last" });
  });

  test("names a bad setting and keeps the good ones", () => {
    const { config, problems } = decodeBootConfig(word({ hostname: "-bad-", logLevel: "error" }));
    expect(config).toEqual({ logLevel: "error" });
    expect(problems).toEqual(["hostname: not a host name"]);
  });

  test("names a setting that it does not know", () => {
    const { config, problems } = decodeBootConfig(word({ hostname: "a", colour: "red" }));
    expect(config).toEqual({ hostname: "a" });
    expect(problems).toEqual(['unknown setting "colour"']);
  });

  test.each([
    ["not JSON", "vmapp.config=%%%"],
    ["nothing", "vmapp.config="],
    ["a list", word([1])],
    ["null", word(null)],
    ["a number", word(7)],
  ])("that is %s is told as a problem and otherwise ignored", (_, line) => {
    const { config, problems } = decodeBootConfig(line);
    expect(config).toEqual({});
    expect(problems).toHaveLength(1);
    expect(problems[0]).toContain("vmapp.config");
  });

  test("does not take a setting from the object's prototype", () => {
    expect(
      decodeBootConfig(`vmapp.config=${Buffer.from('{"__proto__":{"hostname":"x"}}').toString("base64url")}`),
    ).toEqual({
      config: {},
      problems: ['unknown setting "__proto__"'],
    });
  });

  test("allows a host name of 64 bytes and none of 65", () => {
    expect(decodeBootConfig(word({ hostname: "a".repeat(64) })).problems).toEqual([]);
    expect(decodeBootConfig(word({ hostname: "a".repeat(65) })).problems).toEqual(["hostname: longer than 64 bytes"]);
  });

  test("refuses to encode a bad setting, by name", () => {
    expect(() => encodeBootConfig({ hostname: "a b" })).toThrow("bad boot config: hostname: not a host name");
  });

  test("never throws, whatever the command line", () => {
    fc.assert(
      fc.property(
        fc.oneof(
          fc.string(),
          fc.json().map((json) => word(JSON.parse(json))),
        ),
        (text) => {
          const { config, problems } = decodeBootConfig(`a ${text} vmapp.config=${text}`);
          expect(Array.isArray(problems)).toBe(true);
          expect(encodeBootConfig(config).length).toBeLessThanOrEqual(maxBootConfigBytes);
        },
      ),
    );
  });
});

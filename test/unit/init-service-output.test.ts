import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { prefixLines, type ServiceOutput } from "#init/service-output.ts";

const endOfRun = Symbol("end of run");

async function prefixed(chunks: readonly (string | Uint8Array | typeof endOfRun)[]): Promise<string> {
  async function* output(): AsyncGenerator<ServiceOutput, void> {
    for (const chunk of chunks)
      yield chunk === endOfRun ? "end of run" : typeof chunk === "string" ? Buffer.from(chunk) : chunk;
  }
  let written = "";
  await prefixLines({
    output: output(),
    name: "app",
    write: async (lines) => {
      written += Buffer.from(lines).toString("latin1");
    },
  });
  return written;
}

describe("a service's output", () => {
  test("has the service's name before each line, however it is chunked", async () => {
    expect(await prefixed(["one\ntw", "o\n", "\nthree\n"])).toBe("app: one\napp: two\napp: \napp: three\n");
  });

  test("ends with a line end even when the service's does not", async () => {
    expect(await prefixed(["half"])).toBe("app: half\n");
  });

  test("of one run does not share a line with the next, and a run that ended its last line adds none", async () => {
    expect(await prefixed(["half", endOfRun, "whole\n", endOfRun, endOfRun, "next"])).toBe(
      "app: half\napp: whole\napp: next\n",
    );
  });

  test("is cut where a line never ends", async () => {
    const written = await prefixed(["x".repeat(10_000), "y"]);
    expect(written.split("\n").map((line) => line.length)).toEqual([4096 + 5, 4096 + 5, 10_000 - 8192 + 1 + 5, 0]);
  });

  test("loses no byte of any line", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.uint8Array({ maxLength: 200 }), { maxLength: 20 }), async (chunks) => {
        const whole = Buffer.concat(chunks).toString("latin1");
        const lines = whole === "" ? [] : whole.replace(/\n$/, "").split("\n");
        expect(await prefixed(chunks)).toBe(lines.map((line) => `app: ${line}\n`).join(""));
      }),
    );
  });
});

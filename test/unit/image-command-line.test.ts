import { describe, expect, test } from "bun:test";
import { commandLineLimit, kernelCommandLine } from "#image/command-line.ts";

describe("the kernel command line", () => {
  test("has the image's words first, then the session disk's, then the boot's", () => {
    const line = kernelCommandLine({
      kernelParameters: ["console=ttyS0", "panic=-1"],
      sessionDisk: true,
      extra: ["vmapp.config=e30"],
    });
    expect(line).toBe("console=ttyS0 panic=-1 vmapp.session=disk vmapp.config=e30");
  });

  test("does not mention a session disk when there is none", () => {
    expect(kernelCommandLine({ kernelParameters: ["quiet"] })).toBe("quiet");
  });

  test("takes as many bytes as Linux does and not one more", () => {
    const word = "x".repeat(commandLineLimit - "quiet ".length);
    expect(kernelCommandLine({ kernelParameters: ["quiet"], extra: [word] })).toHaveLength(commandLineLimit);
    expect(() => kernelCommandLine({ kernelParameters: ["quiet"], extra: [`${word}x`] })).toThrow(
      `the kernel command line has ${commandLineLimit + 1} bytes; Linux takes ${commandLineLimit}`,
    );
  });

  for (const word of ["two words", "new\nline", "", "ümlaut", "nul\0"])
    test(`refuses ${JSON.stringify(word)} as a word`, () => {
      expect(() => kernelCommandLine({ kernelParameters: [], extra: [word] })).toThrow(`"${word}" cannot be a word`);
    });
});

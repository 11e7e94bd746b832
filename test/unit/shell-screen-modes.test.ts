import { describe, expect, test } from "bun:test";
import { ScreenModes } from "#host/clients/shell/screen-modes.ts";

/** What has to be written after output in these pieces, for a shell to find the terminal as it expects it. */
function restorationAfter(...pieces: string[]): string {
  const modes = new ScreenModes();
  for (const piece of pieces) modes.watch(Buffer.from(piece));
  return modes.restoration();
}

describe("modes that a program has switched on at the terminal", () => {
  test("need nothing when there are none", () => {
    expect(restorationAfter("plain text\r\n", "\x1b[31mred\x1b[0m", "\x1b[?25h", "\x1b[?7l\x1b[?12h")).toBe("");
  });

  test("are switched off, the cursor first and the alternate screen last", () => {
    expect(restorationAfter("\x1b[?1049h\x1b[?25l\x1b[?2004h")).toBe("\x1b[0m\x1b[?25h\x1b[?2004l\x1b[?1049l");
  });

  test("need nothing once the program has switched them off itself", () => {
    expect(restorationAfter("\x1b[?1049h\x1b[?25ltext\x1b[?25h\x1b[?1049l")).toBe("");
  });

  test("are seen in one sequence of several", () => {
    expect(restorationAfter("\x1b[?1000;1006;2004h", "\x1b[?1006;2004l")).toBe("\x1b[0m\x1b[?1000l");
  });

  test("are seen wherever the output is cut", () => {
    const sequence = "\x1b[?1049h";
    for (let cut = 1; cut < sequence.length; cut++) {
      expect(restorationAfter(`before${sequence.slice(0, cut)}`, `${sequence.slice(cut)}after`)).toBe(
        "\x1b[0m\x1b[?1049l",
      );
    }
    expect(restorationAfter(...sequence)).toBe("\x1b[0m\x1b[?1049l");
  });

  test("are not seen in what only looks like one", () => {
    expect(restorationAfter("[?1049h", "\x1b", "x[?1049h", "\x1b[1049h", "\x1b[?10", "x49h")).toBe("");
  });

  test("cost no memory on output that never ends a sequence", () => {
    const modes = new ScreenModes();
    for (let round = 0; round < 1_000; round++) modes.watch(Buffer.from(`\x1b[?${"1;".repeat(500)}`));
    modes.watch(Buffer.from("\x1b[?25l"));
    expect(modes.restoration()).toBe("\x1b[0m\x1b[?25h");
  });
});

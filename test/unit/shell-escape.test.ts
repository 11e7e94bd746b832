import { describe, expect, test } from "bun:test";
import { EscapeFilter } from "#host/clients/shell/escape.ts";

/** What becomes of keys that are typed in these pieces: input as text, escapes in angle brackets. */
function typed(...pieces: string[]): string {
  const filter = new EscapeFilter();
  return pieces
    .flatMap((piece) => filter.push(Buffer.from(piece)))
    .map((action) => (action.kind === "input" ? Buffer.from(action.bytes).toString() : `<${action.kind}>`))
    .join("");
}

describe("escapes at the start of a line", () => {
  test("are taken at the start of the session and behind CR and LF", () => {
    expect(typed("~.")).toBe("<disconnect>");
    expect(typed("ls\r~.")).toBe("ls\r<disconnect>");
    expect(typed("ls\n~?")).toBe("ls\n<help>");
    expect(typed("\r\r~\x1a")).toBe("\r\r<suspend>");
  });

  test("are input anywhere else in a line", () => {
    expect(typed("a~.b~?c~~")).toBe("a~.b~?c~~");
    expect(typed(" ~.")).toBe(" ~.");
  });

  test("are found however the keys arrive", () => {
    expect(typed("~", ".")).toBe("<disconnect>");
    expect(typed("ls", "\r", "~", "?", "x")).toBe("ls\r<help>x");
    expect(typed("~", "x", "~.")).toBe("~x~.");
  });

  test("hold a ~ back until the next key", () => {
    expect(typed("~")).toBe("");
    expect(typed("~", "a")).toBe("~a");
  });

  test("send one ~ for two, and all of it for a key that means nothing", () => {
    expect(typed("~~.")).toBe("~.");
    expect(typed("~~~.")).toBe("~~.");
    expect(typed("~x~.\r")).toBe("~x~.\r");
  });

  test("are found behind one that went before, and behind a ~ that ended its line", () => {
    expect(typed("~?~.")).toBe("<help><disconnect>");
    expect(typed("~\r~.")).toBe("~\r<disconnect>");
  });

  test("leave nothing behind a disconnect", () => {
    expect(typed("one\r~.two\rthree")).toBe("one\r<disconnect>");
  });

  test("leave every byte as it is", () => {
    const bytes = Uint8Array.from({ length: 1024 }, (_, index) => index % 256);
    const passed = new EscapeFilter().push(bytes).map((action) => (action.kind === "input" ? action.bytes : []));
    expect(Buffer.concat(passed.map((piece) => Uint8Array.from(piece))).equals(bytes)).toBe(true);
  });
});

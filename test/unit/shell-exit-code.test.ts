import { expect, test } from "bun:test";
import { exitCode } from "#agent/shell/teardown.ts";

test.each([0, 1, 127, 255])("a command that exited with %d has that code", (code) => {
  expect(exitCode({ code, signal: null })).toBe(code);
});

test.each([
  [1, 129],
  [9, 137],
  [15, 143],
  [64, 192],
])("a command that signal %d killed has the code %d", (signal, code) => {
  expect(exitCode({ code: null, signal })).toBe(code);
});

test("a command of whose end nobody knows has the code 255", () => {
  expect(exitCode({ code: null, signal: null })).toBe(255);
});

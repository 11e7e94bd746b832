import { describe, expect, test } from "bun:test";
import { TransportError } from "#host/transport/error.ts";
import { formatTarget, isVmName, parseTarget, type Target } from "#host/transport/target.ts";

function refusal(text: string): TransportError {
  try {
    parseTarget(text);
  } catch (error) {
    if (error instanceof TransportError) return error;
    throw error;
  }
  throw new Error(`${text} was accepted`);
}

describe("targets", () => {
  const good: [string, Target][] = [
    ["a", { kind: "name", name: "a" }],
    ["calm-heron-3f2", { kind: "name", name: "calm-heron-3f2" }],
    ["vsock:3", { kind: "vsock", cid: 3 }],
    ["vsock:4294967294", { kind: "vsock", cid: 4294967294 }],
    ["hybrid:/run/fc/v.sock", { kind: "hybrid", path: "/run/fc/v.sock" }],
    ["hybrid:/a:b", { kind: "hybrid", path: "/a:b" }],
    ["unix:/tmp/guest", { kind: "unix", directory: "/tmp/guest" }],
  ];
  test.each(good)("%s is read, and written the same way", (text, target) => {
    expect(parseTarget(text)).toEqual(target);
    expect(formatTarget(target)).toBe(text);
  });

  test.each([
    ["vsock:2", "CID"],
    ["vsock:4294967295", "CID"],
    ["vsock:x", "CID"],
    ["vsock:", "CID"],
    ["vsock:3.5", "CID"],
    ["hybrid:run/v.sock", "absolute path"],
    ["unix:", "absolute path"],
    ["unix:/a\0b", "NUL"],
    ["ssh:host", "vsock:CID"],
    ["", "a name is"],
    ["../x", "a name is"],
    ["A", "a name is"],
    ["-a", "a name is"],
    ["a-", "a name is"],
    ["a/b", "a name is"],
  ])("%j is refused with a message that names it and says what was expected", (text, expected) => {
    const error = refusal(text);
    expect(error.code).toBe("bad_target");
    expect(error.target).toBe(text);
    expect(error.message).toContain(`"${text}"`);
    expect(error.message).toContain(expected);
  });

  test("a name has at most 63 characters", () => {
    expect(isVmName("a".repeat(63))).toBe(true);
    expect(isVmName("a".repeat(64))).toBe(false);
  });
});

import { describe, expect, test } from "bun:test";
import { Binary, BSON, Double, Int32, Long } from "bson";
import { DocumentError } from "#protocol/console/document-reader.ts";
import { ErrorCode } from "#protocol/console/errors.ts";
import { decodeMessage, MessageError } from "#protocol/console/message.ts";

const decode = (document: object) => decodeMessage(Buffer.from(BSON.serialize(document, { ignoreUndefined: true })));

function refusal(document: object): MessageError {
  try {
    decode(document);
  } catch (error) {
    if (error instanceof MessageError) return error;
    throw error;
  }
  throw new Error("it was not refused");
}

const v = { jsonrpc: "2.0" };

describe("refused as a bad envelope, under the id when there is one", () => {
  const result = { code: 0, stdout: new Binary(), stderr: new Binary(), truncated: false };
  const cases: readonly [string, object, bigint | undefined][] = [
    ["jsonrpc is missing", { id: 1, method: "version" }, 1n],
    ["jsonrpc is 1.0", { jsonrpc: "1.0", id: 1, method: "version" }, 1n],
    ["jsonrpc is a number", { jsonrpc: 2, id: 1, method: "version" }, 1n],
    ["a request has no id", { ...v, method: "exec", params: { cmd: ["ls"] } }, undefined],
    ["an id is a string", { ...v, id: "1", method: "version" }, undefined],
    ["an id is a double", { ...v, id: new Double(1), method: "version" }, undefined],
    ["an id is negative", { ...v, id: -1, method: "version" }, undefined],
    ["start has an id", { ...v, id: 1, method: "start" }, 1n],
    ["stop has an id", { ...v, id: 1, method: "stop" }, 1n],
    ["quit has an id", { ...v, id: 1, method: "quit" }, 1n],
    ["a method is not a string", { ...v, id: 1, method: 7 }, 1n],
    ["there is no method, result or error", { ...v, id: 1 }, 1n],
    ["result and error come together", { ...v, id: 1, method: "exec", result, error: { code: 1, message: "" } }, 1n],
    ["a result has no method", { ...v, id: 1, result }, 1n],
    ["params and a result come together", { ...v, id: 1, method: "exec", params: {}, result }, 1n],
    ["null params and a result come together", { ...v, id: 1, method: "exec", params: null, result }, 1n],
    ["params and an error come together", { ...v, id: 1, params: {}, error: { code: 1, message: "" } }, 1n],
    ["a response has no id", { ...v, method: "exec", result }, undefined],
    ["a result is null", { ...v, id: 1, method: "exec", result: null }, 1n],
    ["a result is another method's", { ...v, id: 1, method: "exec", result: { size: 1 } }, 1n],
    ["a result answers a notification", { ...v, id: 1, method: "quit", result: {} }, 1n],
    ["an error is not a document", { ...v, id: 1, error: "no" }, 1n],
    ["an error has no message", { ...v, id: 1, error: { code: 1 } }, 1n],
  ];
  for (const [name, document, id] of cases) {
    test(`a message in which ${name}`, () => {
      const error = refusal(document);
      expect(error.refusal).toBe("invalidRequest");
      expect(error.id).toBe(id as never);
    });
  }
});

test("an unknown method is refused by name, on a response too", () => {
  expect(refusal({ ...v, id: 4, method: "commit" })).toMatchObject({ refusal: "methodNotFound", id: 4n });
  expect(refusal({ ...v, id: 4, method: "commit" }).message).toContain('"commit"');
  expect(refusal({ ...v, id: 4, method: "toString", result: {} })).toMatchObject({ refusal: "methodNotFound" });
});

test("a result that its method does not answer with is refused with the method's name", () => {
  expect(refusal({ ...v, id: 1, method: "exec", result: { code: 0 } }).message).toStartWith("exec result: ");
});

describe("refused as params that are not what the method takes", () => {
  const recipe = { v: 1, base: "scratch", steps: [] };
  const cases: readonly [string, string, unknown][] = [
    ["a cmd that is a string", "exec", { cmd: "ls" }],
    ["a cmd that is a document", "exec", { cmd: { a: "ls" } }],
    ["a cmd of numbers", "exec", { cmd: [1] }],
    ["no cmd", "exec", {}],
    ["a negative timeout", "exec", { cmd: ["x"], timeout_ms: -1 }],
    ["a timeout that is half a millisecond", "exec", { cmd: ["x"], timeout_ms: new Double(0.5) }],
    ["no path", "read", {}],
    ["a path that is Binary", "read", { path: new Binary(Buffer.from("x")) }],
    ["a negative offset", "read", { path: "x", offset: -1 }],
    ["a len that is text", "read", { path: "x", len: "1" }],
    ["data of null", "write", { path: "x", data: null }],
    ["data that is text", "write", { path: "x", data: "abc" }],
    ["data of another Binary subtype", "write", { path: "x", data: new Binary(Buffer.alloc(16), 4) }],
    ["data with an integer over 255", "write", { path: "x", data: [256] }],
    ["data with a negative integer", "write", { path: "x", data: [-1] }],
    ["params that are an array", "version", []],
    ["params that are a string", "read", "x"],
    ["mounts of null", "init", { mounts: null }],
    ["ports of null", "init", { ports: null }],
    ["a network of null", "init", { network: null }],
    ["a network that is a number", "init", { network: 1 }],
    ["256 vCPUs", "init", { vcpus: 256 }],
    ["a memory of 2^32 MiB", "init", { memory_mib: Long.fromString("4294967296") }],
    ["a mount that is not one", "init", { mounts: ["/srv:/work"] }],
    ["a port that is not one", "init", { ports: ["80"] }],
    ["a snapshot that is text", "init", { snapshot: "x" }],
    ["an image of an unknown type", "init", { image: { type: "tag", tag: "x" } }],
    ["an image without its ref", "init", { image: { type: "ref" } }],
    ["a recipe of version 2", "build_image", { recipe: { ...recipe, v: 2 } }],
    ["a recipe without a version", "build_image", { recipe: { base: "x", steps: [] } }],
    ["a recipe with an empty base", "build_image", { recipe: { ...recipe, base: "" } }],
    ["a recipe without steps", "build_image", { recipe: { v: 1, base: "x" } }],
    ["a step with two keys", "build_image", { recipe: { ...recipe, steps: [{ run: "a", workdir: "/" }] } }],
    [
      "a step with an unknown key beside a known one",
      "build_image",
      { recipe: { ...recipe, steps: [{ run: "a", x: 1 }] } },
    ],
    ["a step of an unknown kind", "build_image", { recipe: { ...recipe, steps: [{ user: "me" }] } }],
    ["no image to remove", "remove_image", {}],
  ];
  for (const [name, method, params] of cases) {
    test(`${method} with ${name}`, () => {
      const error = refusal({ ...v, id: 9, method, params });
      expect(error).toMatchObject({ refusal: "invalidParams", id: 9n });
      expect(error.message).toStartWith(`${method} params: `);
    });
  }

  test("a path that is not UTF-8", () => {
    const payload = Buffer.from(BSON.serialize({ ...v, id: new Int32(1), method: "read", params: { path: "aXb" } }));
    payload[payload.indexOf("aXb") + 1] = 0xff;
    expect(() => decodeMessage(payload)).toThrow("read params: path is not UTF-8");
  });
});

describe("bytes that are no document at all", () => {
  const whole = Buffer.from(BSON.serialize({ ...v, method: "quit" }));
  const cases: readonly [string, Uint8Array][] = [
    ["shorter than any document", new Uint8Array([4, 0, 0, 0])],
    ["a length that is not the frame's", Buffer.concat([whole, Buffer.alloc(1)])],
    ["cut short", whole.subarray(0, -3)],
    ["without the final zero", Buffer.concat([whole.subarray(0, -1), Buffer.from([1])])],
    ["a member of an unknown type", Buffer.from([8, 0, 0, 0, 0x77, 0x61, 0, 0])],
    ["a member that runs past the end", Buffer.from([12, 0, 0, 0, 0x12, 0x61, 0, 1, 2, 3, 4, 0])],
    ["a string with a length of zero", Buffer.from([13, 0, 0, 0, 2, 0x61, 0, 0, 0, 0, 0, 0, 0])],
    ["a string with a negative length", Buffer.from([13, 0, 0, 0, 2, 0x61, 0, 0xff, 0xff, 0xff, 0xff, 0, 0])],
    ["a name without an end", Buffer.from([9, 0, 0, 0, 8, 0x61, 0x61, 0x61, 0])],
  ];
  for (const [name, bytes] of cases) {
    test(`${name}: the channel cannot be trusted any more`, () => {
      expect(() => decodeMessage(bytes)).toThrow(DocumentError);
    });
  }
});

test("every error code is distinct and keeps clear of the retired ones", () => {
  const codes = Object.values(ErrorCode);
  expect(new Set(codes).size).toBe(codes.length);
  for (const retired of [-32003, -32004, -32014, -32700]) expect(codes as number[]).not.toContain(retired);
});

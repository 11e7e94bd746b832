import { describe, expect, test } from "bun:test";
import { Binary, BSON, Double, Int32, Long } from "bson";
import { maxBlobBytes, maxPayload, maxStreamBytes } from "#protocol/console/limits.ts";
import { decodeMessage, encodeMessage, type Message } from "#protocol/console/message.ts";
import { FrameLimitError } from "#protocol/framing.ts";

/** A frame's payload in one piece, its header checked. */
function payloadOf(message: Message): Buffer {
  const frame = Buffer.concat(encodeMessage(message));
  expect(frame.readUInt32BE(0)).toBe(frame.length - 4);
  return frame.subarray(4);
}

const exec = { kind: "request", id: 2n, method: "exec", params: { cmd: ["ls"] } } as const;

describe("golden frames", () => {
  const frames: readonly [string, Message, string][] = [
    [
      "quit",
      { kind: "notification", method: "quit" },
      "27000000026a736f6e7270630004000000322e3000026d6574686f640005000000717569740000",
    ],
    [
      "a default init",
      { kind: "request", id: 0n, method: "init", params: { network: true, ports: [], mounts: [] } },
      "40000000026a736f6e7270630004000000322e3000126964000000000000000000026d6574686f640005000000696e69740003706172616d7300050000000000",
    ],
    [
      "exec of ls",
      exec,
      "54000000026a736f6e7270630004000000322e3000126964000200000000000000026d6574686f640005000000657865630003706172616d73001900000004636d64000f000000023000030000006c7300000000",
    ],
    [
      "the answer to init",
      { kind: "result", id: 0n, method: "init", result: { cwd: "/work" } },
      "4f000000026a736f6e7270630004000000322e3000126964000000000000000000026d6574686f640005000000696e69740003726573756c7400140000000263776400060000002f776f726b000000",
    ],
    [
      "the answer to exec",
      {
        kind: "result",
        id: 2n,
        method: "exec",
        result: { code: 0, stdout: Buffer.from("hi\n"), stderr: new Uint8Array(0), truncated: false },
      },
      "73000000026a736f6e7270630004000000322e3000126964000200000000000000026d6574686f640005000000657865630003726573756c74003800000010636f64650000000000057374646f757400030000000068690a05737464657272000000000000087472756e636174656400000000",
    ],
    [
      "an error",
      { kind: "error", id: 2n, error: { code: -32000, message: "killed after 5000ms" } },
      "5d000000026a736f6e7270630004000000322e3000126964000200000000000000036572726f72003400000012636f6465000083ffffffffffff026d65737361676500140000006b696c6c656420616674657220353030306d73000000",
    ],
    [
      "a write of three bytes",
      { kind: "request", id: 6n, method: "write", params: { path: "in/data", data: new Uint8Array([0, 1, 2]) } },
      "61000000026a736f6e7270630004000000322e3000126964000600000000000000026d6574686f64000600000077726974650003706172616d73002500000002706174680008000000696e2f646174610005646174610003000000000001020000",
    ],
  ];
  for (const [name, message, hex] of frames) {
    test(`${name} is written byte for byte as the contract's peers write it`, () => {
      expect(payloadOf(message).toString("hex")).toBe(hex);
    });
  }
});

const digest = `sha256:${"0".repeat(64)}`;
const recipe = {
  base: "alpine:3.20",
  steps: [
    { run: "apk add jq" },
    { copy: { src: "a", dst: "/a" } },
    { env: { key: "K", value: "V" } },
    { workdir: "/w" },
  ],
};

const everyKind: readonly Message[] = [
  { kind: "request", id: 0n, method: "version", params: {} },
  { kind: "request", id: 1n, method: "build_image", params: { recipe, ref: "a:b" } },
  { kind: "request", id: 2n, method: "remove_image", params: { image: { type: "digest", digest } } },
  { kind: "request", id: 3n, method: "list_images", params: {} },
  {
    kind: "request",
    id: 4n,
    method: "init",
    params: {
      image: { type: "recipe", recipe },
      snapshot: new Uint8Array([1, 2, 255]),
      network: false,
      ports: [],
      vcpus: 4,
      memoryMib: 4_000_000_000,
      gpu: false,
      gpuMemoryMib: 3,
      diskGib: 32,
      mounts: [
        { url: "file:///srv", scheme: "file", guestPath: "/work", readOnly: true },
        { url: "file:///out", scheme: "file", guestPath: "/work/out", readOnly: false },
      ],
    },
  },
  { kind: "request", id: 5n, method: "exec", params: { cmd: ["a", "", "ü"], timeoutMs: 2 ** 40 } },
  { kind: "request", id: 6n, method: "read", params: { path: "/x", offset: 2 ** 33, len: 1 } },
  { kind: "request", id: 2n ** 62n, method: "write", params: { path: "/x", data: new Uint8Array(0), offset: 0 } },
  { kind: "request", id: 8n, method: "snapshot", params: {} },
  { kind: "notification", method: "start" },
  { kind: "notification", method: "stop" },
  { kind: "notification", method: "quit" },
  { kind: "result", id: 0n, method: "version", result: { version: "1" } },
  { kind: "result", id: 1n, method: "build_image", result: { ref: "a:b", digest } },
  { kind: "result", id: 2n, method: "remove_image", result: {} },
  {
    kind: "result",
    id: 3n,
    method: "list_images",
    result: {
      images: [
        { digest, refs: ["a:b"] },
        { digest, refs: [] },
      ],
    },
  },
  { kind: "result", id: 4n, method: "init", result: { cwd: undefined } },
  {
    kind: "result",
    id: 5n,
    method: "exec",
    result: { code: -1, stdout: new Uint8Array([0, 255]), stderr: new Uint8Array(0), truncated: true },
  },
  { kind: "result", id: 6n, method: "read", result: { data: new Uint8Array(7), size: 2 ** 40 } },
  { kind: "result", id: 7n, method: "write", result: { size: 2 ** 31 } },
  { kind: "result", id: 8n, method: "snapshot", result: { blob: new Uint8Array(3) } },
  { kind: "error", id: 9n, error: { code: -32603, message: "x" } },
];

test("every kind of message survives a round trip", () => {
  for (const message of everyKind) expect(decodeMessage(payloadOf(message))).toEqual(message);
});

test("every message is BSON for another reader, with the same bytes when that one writes it", () => {
  for (const message of everyKind) {
    const payload = payloadOf(message);
    const document = BSON.deserialize(payload, { promoteValues: false });
    expect(Buffer.from(BSON.serialize(document)).equals(payload)).toBe(true);
  }
});

test("integers have the BSON type that the contract gives each member", () => {
  const types = (message: Message) =>
    BSON.deserialize(payloadOf(message), { promoteValues: false }) as never as Record<string, Record<string, unknown>>;
  expect(types(exec).id).toBeInstanceOf(Long);
  const init = types(everyKind[4] as Message).params as Record<string, unknown>;
  expect(init.vcpus).toBeInstanceOf(Int32);
  for (const member of ["memory_mib", "gpu_memory_mib", "disk_gib"]) expect(init[member]).toBeInstanceOf(Long);
  expect((init.image as { recipe: { v: unknown } }).recipe.v).toBeInstanceOf(Long);
  const read = types(everyKind[6] as Message).params as Record<string, unknown>;
  expect(read.offset).toBeInstanceOf(Long);
  expect(read.len).toBeInstanceOf(Long);
  expect(types(everyKind[5] as Message).params?.timeout_ms).toBeInstanceOf(Long);
  expect(types(everyKind[17] as Message).result?.code).toBeInstanceOf(Int32);
  expect(types(everyKind[18] as Message).result?.size).toBeInstanceOf(Long);
  expect(types(everyKind[21] as Message).error?.code).toBeInstanceOf(Long);
  expect(types(everyKind[17] as Message).result).toMatchObject({ stdout: { sub_type: 0 } });
});

test("members that have their default are not written", () => {
  const members = (message: Message) => Object.keys(BSON.deserialize(payloadOf(message)).params as object);
  expect(
    members({ kind: "request", id: 0n, method: "init", params: { network: true, ports: [], mounts: [] } }),
  ).toEqual([]);
  expect(members({ kind: "request", id: 0n, method: "write", params: { path: "x", data: new Uint8Array(0) } })).toEqual(
    ["path"],
  );
  expect(members(exec)).toEqual(["cmd"]);
});

test("output travels as its own bytes, not as text", () => {
  const bytes = Uint8Array.from({ length: 256 }, (_, index) => index);
  const payload = payloadOf({
    kind: "result",
    id: 0n,
    method: "exec",
    result: { code: 0, stdout: bytes, stderr: new Uint8Array(0), truncated: false },
  });
  expect(payload.includes(Buffer.from(bytes))).toBe(true);
});

test("a read is answered with views of the frame, not with copies", () => {
  const payload = payloadOf({
    kind: "result",
    id: 0n,
    method: "read",
    result: { data: new Uint8Array(100_000), size: 1 },
  });
  const message = decodeMessage(payload);
  if (message.kind !== "result" || message.method !== "read") throw new Error("not a read");
  expect((message.result.data as Uint8Array).buffer).toBe(payload.buffer);
});

describe("the largest frames", () => {
  const empty = { kind: "result", id: 0n, method: "snapshot", result: { blob: new Uint8Array(0) } } as const;
  const room = maxPayload - payloadOf(empty).length;

  test("a payload of exactly 64 MiB is written without a copy of its bytes and read back", () => {
    const blob = Buffer.alloc(room, 7);
    const pieces = encodeMessage({ ...empty, result: { blob } });
    expect(pieces).toContain(blob);
    const payload = Buffer.concat(pieces).subarray(4);
    expect(payload.length).toBe(maxPayload);
    const message = decodeMessage(payload);
    if (message.kind !== "result" || message.method !== "snapshot") throw new Error("not a snapshot");
    expect(Buffer.compare(message.result.blob as Uint8Array, blob)).toBe(0);
  });

  test("one byte more is refused before anything is written", () => {
    expect(() => encodeMessage({ ...empty, result: { blob: Buffer.alloc(room + 1) } })).toThrow(FrameLimitError);
  });

  test("two full streams and a full blob fit their frames", () => {
    const stream = Buffer.alloc(maxStreamBytes);
    const result = { code: 0, stdout: stream, stderr: stream, truncated: true };
    expect(() => encodeMessage({ kind: "result", id: 2n ** 62n, method: "exec", result })).not.toThrow();
    const blob = Buffer.alloc(maxBlobBytes);
    expect(() => encodeMessage({ kind: "result", id: 2n ** 62n, method: "snapshot", result: { blob } })).not.toThrow();
    expect(maxStreamBytes).toBe(33_553_920);
    expect(maxBlobBytes).toBe(67_107_840);
  });
});

describe("what a reader takes", () => {
  const decode = (document: object) => decodeMessage(Buffer.from(BSON.serialize(document, { ignoreUndefined: true })));
  const request = (method: string, params?: unknown) =>
    decode({ jsonrpc: "2.0", id: 1, method, params }) as unknown as { params: Record<string, unknown> };

  test("members come in any order", () => {
    const message = decode({ params: { cmd: ["ls"] }, id: new Int32(3), method: "exec", jsonrpc: "2.0" });
    expect(message).toEqual({ kind: "request", id: 3n, method: "exec", params: { cmd: ["ls"], timeoutMs: undefined } });
  });

  test("unknown members are ignored, at the top and inside", () => {
    expect(decode({ jsonrpc: "2.0", method: "stop", trace_id: { deep: [1] } })).toEqual({
      kind: "notification",
      method: "stop",
    });
    expect(request("read", { path: "x", mood: "good" }).params).toMatchObject({ path: "x" });
  });

  test("absent params and null params are an empty document", () => {
    for (const method of ["version", "list_images", "snapshot", "init"]) {
      expect(request(method)).toMatchObject({ kind: "request", method });
      expect(request(method, null)).toMatchObject({ kind: "request", method });
    }
  });

  test("a notification's params are ignored whatever they are", () => {
    expect(decode({ jsonrpc: "2.0", method: "quit", params: 5 })).toEqual({ kind: "notification", method: "quit" });
  });

  test("a null id is an absent one", () => {
    expect(decode({ jsonrpc: "2.0", id: null, method: "start" })).toEqual({ kind: "notification", method: "start" });
  });

  test("an error may name a method", () => {
    const error = { code: -32000, message: "m", data: { more: 1 } };
    expect(decode({ jsonrpc: "2.0", id: 1, method: "exec", error })).toEqual({
      kind: "error",
      id: 1n,
      error: { code: -32000, message: "m" },
    });
  });

  test("an integer may be an Int32, an Int64 or a whole double", () => {
    for (const offset of [new Int32(7), Long.fromNumber(7), new Double(7)]) {
      expect(request("read", { path: "x", offset }).params).toMatchObject({ offset: 7 });
    }
  });

  test("an offset beyond every file is taken as one", () => {
    expect(request("read", { path: "x", offset: Long.MAX_VALUE }).params).toMatchObject({
      offset: Number.MAX_SAFE_INTEGER,
    });
  });

  test("a snapshot may be Binary or an array of integers", () => {
    expect(request("init", { snapshot: new Binary(Buffer.from([1, 2, 255])) }).params).toMatchObject({
      snapshot: Buffer.from([1, 2, 255]),
    });
    expect(request("init", { snapshot: [1, 2, Long.fromNumber(255)] }).params).toMatchObject({
      snapshot: new Uint8Array([1, 2, 255]),
    });
    expect(request("init", { snapshot: [] }).params).toMatchObject({ snapshot: new Uint8Array(0) });
  });

  test("null is absent for optional members", () => {
    const none = {
      image: null,
      snapshot: null,
      vcpus: null,
      memory_mib: null,
      gpu: null,
      gpu_memory_mib: null,
      disk_gib: null,
    };
    expect(request("init", none).params).toEqual({ network: true, ports: [], mounts: [] });
    expect(request("exec", { cmd: ["x"], timeout_ms: null }).params).toEqual({ cmd: ["x"] });
    expect(request("read", { path: "x", offset: null, len: null }).params).toEqual({ path: "x" });
  });

  test("of a member that occurs twice the last counts", () => {
    const one = Buffer.from(BSON.serialize({ jsonrpc: "2.0", method: "start" }));
    const two = Buffer.from(BSON.serialize({ method: "stop" }));
    const both = Buffer.concat([one.subarray(0, -1), two.subarray(4)]);
    both.writeInt32LE(both.length, 0);
    expect(decodeMessage(both)).toEqual({ kind: "notification", method: "stop" });
  });
});

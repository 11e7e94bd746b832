/**
 * The twelve methods of the console with their params and results, as types and as documents. Names on the wire are
 * snake_case; integers have the BSON type that the companion's table gives them.
 */
import { type ByteChunks, type DocumentValue, Int32 } from "./document-writer.ts";
import {
  decodeImageEntry,
  decodeImageSource,
  decodeRecipe,
  encodeImageEntry,
  encodeImageSource,
  encodeRecipe,
  type ImageEntry,
  type ImageSource,
  type Recipe,
} from "./image.ts";
import { Members, signed32, stringOf, unsigned, unsigned8, unsigned32 } from "./members.ts";
import { formatMount, type Mount, parseMount } from "./mount.ts";
import { formatPort, type PortMapping, parsePort } from "./port.ts";

/** Bytes of a message: one view of the frame when they were read, one or several places when they are to be written. */
export type Bytes = Uint8Array | ByteChunks;

export type Nothing = Readonly<Record<never, never>>;

export interface InitParams {
  readonly image?: ImageSource | undefined;
  /** a layer tar that a `snapshot` answered with */
  readonly snapshot?: Bytes | undefined;
  /** whether commands reach a network; true when absent */
  readonly network: boolean;
  readonly ports: readonly PortMapping[];
  readonly vcpus?: number | undefined;
  readonly memoryMib?: number | undefined;
  readonly gpu?: boolean | undefined;
  readonly gpuMemoryMib?: number | undefined;
  readonly diskGib?: number | undefined;
  /** in the order in which they are mounted */
  readonly mounts: readonly Mount[];
}

export interface InitResult {
  /** where the session stands */
  readonly cwd?: string | undefined;
}

export interface ExecParams {
  readonly cmd: readonly string[];
  /** milliseconds until the command is killed; no limit when absent */
  readonly timeoutMs?: number | undefined;
}

export interface ExecResult {
  /** exit status, or 128 + the signal that killed the command */
  readonly code: number;
  readonly stdout: Bytes;
  readonly stderr: Bytes;
  /** whether either stream is only the beginning of what was written */
  readonly truncated: boolean;
}

export interface ReadParams {
  readonly path: string;
  /** bytes from the start of the file; 0 when absent */
  readonly offset?: number | undefined;
  /** bytes at most; as many as there are when absent */
  readonly len?: number | undefined;
}

export interface ReadResult {
  readonly data: Bytes;
  /** the file's size in bytes, not the length of `data` */
  readonly size: number;
}

export interface WriteParams {
  readonly path: string;
  readonly data: Bytes;
  /** absent: the file is replaced; present: overwritten from there */
  readonly offset?: number | undefined;
}

/** Every call: what it takes and what it answers with. */
export interface Calls {
  version: { params: Nothing; result: { readonly version: string } };
  build_image: {
    params: { readonly recipe: Recipe; readonly ref?: string | undefined };
    result: { readonly ref: string; readonly digest: string };
  };
  remove_image: { params: { readonly image: ImageSource }; result: Nothing };
  list_images: { params: Nothing; result: { readonly images: readonly ImageEntry[] } };
  init: { params: InitParams; result: InitResult };
  exec: { params: ExecParams; result: ExecResult };
  read: { params: ReadParams; result: ReadResult };
  write: { params: WriteParams; result: { readonly size: number } };
  snapshot: { params: Nothing; result: { readonly blob: Bytes } };
}

export type CallMethod = keyof Calls;

/** Methods that are notifications: no id, no answer. */
export const notificationMethods = ["start", "stop", "quit"] as const;
export type NotificationMethod = (typeof notificationMethods)[number];

interface CallCodec<Method extends CallMethod> {
  /** Throws MemberError: `params` are not what the method takes. */
  decodeParams(document: Uint8Array): Calls[Method]["params"];
  encodeParams(params: Calls[Method]["params"]): DocumentValue;
  /** Throws MemberError: the `result` is not what the method answers with. */
  decodeResult(document: Uint8Array): Calls[Method]["result"];
  encodeResult(result: Calls[Method]["result"]): DocumentValue;
}

const nothing = {
  decode: (document: Uint8Array): Nothing => {
    new Members(document, []);
    return {};
  },
  encode: (): DocumentValue => ({}),
};

function int64(value: number | undefined): bigint | undefined {
  return value === undefined ? undefined : BigInt(value);
}

const initNames = [
  "image",
  "snapshot",
  "network",
  "ports",
  "vcpus",
  "memory_mib",
  "gpu",
  "gpu_memory_mib",
  "disk_gib",
  "mounts",
];

export const callCodecs: { readonly [Method in CallMethod]: CallCodec<Method> } = {
  version: {
    decodeParams: nothing.decode,
    encodeParams: nothing.encode,
    decodeResult: (document) => ({ version: new Members(document, ["version"]).string("version") }),
    encodeResult: ({ version }) => ({ version }),
  },
  build_image: {
    decodeParams: (document) => {
      const members = new Members(document, ["recipe", "ref"]);
      return { recipe: decodeRecipe(members.document("recipe"), "recipe"), ref: members.optionalString("ref") };
    },
    encodeParams: ({ recipe, ref }) => ({ recipe: encodeRecipe(recipe), ref }),
    decodeResult: (document) => {
      const members = new Members(document, ["ref", "digest"]);
      return { ref: members.string("ref"), digest: members.string("digest") };
    },
    encodeResult: ({ ref, digest }) => ({ ref, digest }),
  },
  remove_image: {
    decodeParams: (document) => ({
      image: decodeImageSource(new Members(document, ["image"]).document("image"), "image"),
    }),
    encodeParams: ({ image }) => ({ image: encodeImageSource(image) }),
    decodeResult: nothing.decode,
    encodeResult: nothing.encode,
  },
  list_images: {
    decodeParams: nothing.decode,
    encodeParams: nothing.encode,
    decodeResult: (document) => ({ images: new Members(document, ["images"]).list("images", decodeImageEntry) }),
    encodeResult: ({ images }) => ({ images: images.map(encodeImageEntry) }),
  },
  init: {
    decodeParams: decodeInit,
    encodeParams: (params) => ({
      image: params.image && encodeImageSource(params.image),
      snapshot: params.snapshot,
      network: params.network ? undefined : false,
      ports: params.ports.length === 0 ? undefined : params.ports.map(formatPort),
      vcpus: params.vcpus === undefined ? undefined : new Int32(params.vcpus),
      memory_mib: int64(params.memoryMib),
      gpu: params.gpu,
      gpu_memory_mib: int64(params.gpuMemoryMib),
      disk_gib: int64(params.diskGib),
      mounts: params.mounts.length === 0 ? undefined : params.mounts.map(formatMount),
    }),
    decodeResult: (document) => ({ cwd: new Members(document, ["cwd"]).optionalString("cwd") }),
    encodeResult: ({ cwd }) => ({ cwd }),
  },
  exec: {
    decodeParams: (document) => {
      const members = new Members(document, ["cmd", "timeout_ms"]);
      return { cmd: members.list("cmd", stringOf), timeoutMs: members.optionalInteger("timeout_ms", unsigned) };
    },
    encodeParams: ({ cmd, timeoutMs }) => ({ cmd, timeout_ms: int64(timeoutMs) }),
    decodeResult: (document) => {
      const members = new Members(document, ["code", "stdout", "stderr", "truncated"]);
      return {
        code: members.integer("code", signed32),
        stdout: members.bytes("stdout"),
        stderr: members.bytes("stderr"),
        truncated: members.boolean("truncated", false),
      };
    },
    encodeResult: ({ code, stdout, stderr, truncated }) => ({ code: new Int32(code), stdout, stderr, truncated }),
  },
  read: {
    decodeParams: (document) => {
      const members = new Members(document, ["path", "offset", "len"]);
      return {
        path: members.string("path"),
        offset: members.optionalInteger("offset", unsigned),
        len: members.optionalInteger("len", unsigned),
      };
    },
    encodeParams: ({ path, offset, len }) => ({ path, offset: int64(offset), len: int64(len) }),
    decodeResult: (document) => {
      const members = new Members(document, ["data", "size"]);
      return { data: members.bytes("data"), size: members.integer("size", unsigned) };
    },
    encodeResult: ({ data, size }) => ({ data, size: BigInt(size) }),
  },
  write: {
    decodeParams: (document) => {
      const members = new Members(document, ["path", "data", "offset"]);
      return {
        path: members.string("path"),
        data: members.bytesOrEmpty("data"),
        offset: members.optionalInteger("offset", unsigned),
      };
    },
    encodeParams: ({ path, data, offset }) => ({
      path,
      data: data.length === 0 ? undefined : data,
      offset: int64(offset),
    }),
    decodeResult: (document) => ({ size: new Members(document, ["size"]).integer("size", unsigned) }),
    encodeResult: ({ size }) => ({ size: BigInt(size) }),
  },
  snapshot: {
    decodeParams: nothing.decode,
    encodeParams: nothing.encode,
    decodeResult: (document) => ({ blob: new Members(document, ["blob"]).bytes("blob") }),
    encodeResult: ({ blob }) => ({ blob }),
  },
};

function decodeInit(document: Uint8Array): InitParams {
  const members = new Members(document, initNames);
  const image = members.optionalDocument("image");
  return {
    image: image && decodeImageSource(image, "image"),
    snapshot: members.optionalBytes("snapshot"),
    network: members.boolean("network", true),
    ports: members.listOrEmpty("ports", (element, path) => parsePort(stringOf(element, path))),
    vcpus: members.optionalInteger("vcpus", unsigned8),
    memoryMib: members.optionalInteger("memory_mib", unsigned32),
    gpu: members.optionalBoolean("gpu"),
    gpuMemoryMib: members.optionalInteger("gpu_memory_mib", unsigned32),
    diskGib: members.optionalInteger("disk_gib", unsigned32),
    mounts: members.listOrEmpty("mounts", (element, path) => parseMount(stringOf(element, path))),
  };
}

export function isCallMethod(name: string): name is CallMethod {
  return Object.hasOwn(callCodecs, name);
}

export function isNotificationMethod(name: string): name is NotificationMethod {
  return (notificationMethods as readonly string[]).includes(name);
}

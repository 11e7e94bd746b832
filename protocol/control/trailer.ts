/**
 * *Extension*: a few bytes behind the content of a file, counted in the `size` of its raw block, by which the receiver tells content that
 * arrived whole from content that was damaged on the way, and from content that its sender no longer vouches for: a file
 * that changed while it was read can be called off without breaking the stream.
 */
import { createHash, type Hash } from "node:crypto";
import zlib from "node:zlib";
import type { TrailerKind } from "./trailer-kind.ts";

const lengths = { crc32: 5, sha256: 32 } as const satisfies Record<TrailerKind, number>;

/** the longest of them, in bytes */
export const maxTrailerBytes = lengths.sha256;

/** What this runtime can do best: early versions of Node 20 have no `crc32`, which costs next to nothing. */
export const preferredTrailer: TrailerKind = typeof zlib.crc32 === "function" ? "crc32" : "sha256";

export type TrailerVerdict = "whole" | "damaged" | "called off";

/** Follows one content on its way, at either end. */
export class ContentCheck {
  readonly #hash: Hash | undefined;
  #crc = 0;

  constructor(readonly kind: TrailerKind) {
    this.#hash = kind === "sha256" ? createHash("sha256") : undefined;
  }

  /** bytes of the trailer */
  get length(): number {
    return lengths[this.kind];
  }

  update(content: Uint8Array): void {
    if (this.#hash === undefined) this.#crc = zlib.crc32(content, this.#crc);
    else this.#hash.update(content);
  }

  /** The trailer of what was seen. To be asked for once. */
  seal(): Buffer {
    if (this.#hash !== undefined) return this.#hash.digest();
    const bytes = Buffer.from([1, 0, 0, 0, 0]);
    bytes.writeUInt32BE(this.#crc, 1);
    return bytes;
  }

  /** The trailer that takes the content back. */
  callOff(): Buffer {
    return Buffer.alloc(this.length);
  }

  /** Compares what was seen with the trailer that came behind it. */
  judge(trailer: Uint8Array): TrailerVerdict {
    if (this.seal().equals(trailer)) return "whole";
    return trailer.every((byte) => byte === 0) ? "called off" : "damaged";
  }
}

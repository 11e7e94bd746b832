import { ContentCheck, preferredTrailer } from "#protocol/control/trailer.ts";
import type { TrailerKind } from "#protocol/control/trailer-kind.ts";
import type { Upload } from "./connection.ts";
import { ControlError } from "./error.ts";

/** What is uploaded. */
export interface UploadSource {
  /** bytes, known beforehand */
  readonly size: number;
  /** `size` bytes in all; throws when the source fails */
  readonly pieces: AsyncIterable<Uint8Array> | Iterable<Uint8Array>;
}

/** A source that ends early is made up with zeros as far as this; beyond it a new connection is cheaper. */
const paddedBytes = 8 * 1024 * 1024;

export interface CheckedUpload {
  readonly trailer: TrailerKind;
  readonly upload: Pick<Upload, "size" | "pieces">;
  /** why the source spoiled the upload, when it did */
  failure(what: string): ControlError | undefined;
}

/**
 * The source with a trailer behind it. When the source fails, shrinks or grows, the announced length is kept and the content called off, so
 * that the daemon throws it away and the connection stays in step.
 */
export function checkedUpload(source: UploadSource): CheckedUpload {
  const check = new ContentCheck(preferredTrailer);
  let failed: ((what: string) => ControlError) | undefined;
  const changed = (how: string) => (what: string) =>
    new ControlError("changed", `${what}: the source ${how} while it was read`);

  async function* pieces(): AsyncGenerator<Uint8Array> {
    let left = source.size;
    try {
      for await (const piece of source.pieces) {
        const content = piece.subarray(0, left);
        check.update(content);
        left -= content.length;
        if (content.length > 0) yield content;
        if (content.length < piece.length) {
          failed = changed("grew");
          break;
        }
      }
      if (left > 0) failed = changed("shrank");
    } catch (cause) {
      const reason = cause instanceof Error ? cause.message : String(cause);
      failed = (what) =>
        cause instanceof ControlError ? cause : new ControlError("local", `${what}: ${reason}`, { cause });
    }
    if (left > paddedBytes) throw new Error("the source ended early");
    if (left > 0) yield Buffer.alloc(left);
    yield failed === undefined ? check.seal() : check.callOff();
  }

  return {
    trailer: check.kind,
    upload: { size: source.size + check.length, pieces: pieces() },
    failure: (what) => failed?.(what),
  };
}

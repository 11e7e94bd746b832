/** What of an overlay's upper directory goes into a layer: a walk, in the order in which the entries are written. */
import type { BigIntStats } from "node:fs";
import { lstat, readdir } from "node:fs/promises";
import { getXattr } from "#sys/file-attributes.ts";
import { opaqueXattr } from "./format.ts";

export type PlannedEntry =
  | { readonly kind: "node"; readonly name: Buffer; readonly path: Buffer; readonly stats: BigIntStats }
  /** a name of the base that is gone */
  | { readonly kind: "whiteout"; readonly name: Buffer }
  /** a directory that hides the base's one */
  | { readonly kind: "opaque"; readonly name: Buffer };

export interface PlanOptions {
  /** the upper directory */
  readonly upper: string;
  /** absolute paths of the session whose content is not its work; directories above them go too when nothing else is in them */
  readonly excluded: readonly string[];
}

const slash = Buffer.from("/");

/** The name leads nowhere any more, or to something else than it did. Commands go on while their files are listed. */
export function isGone(error: unknown): boolean {
  if (!(error instanceof Error) || !("code" in error)) return false;
  return error.code === "ENOENT" || error.code === "ENOTDIR" || error.code === "ELOOP";
}

function unlessGone(error: unknown): undefined {
  if (!isGone(error)) throw error;
}

/** Parents come before their children, and names of a directory in the order of their bytes. */
export async function* planLayer({ upper, excluded }: PlanOptions): AsyncGenerator<PlannedEntry> {
  const keys = excluded.map((path) => key(Buffer.from(path.replace(/\/+$/, "").slice(1))));
  const left = new Set(keys);
  const above = new Set(keys.flatMap(ancestors));
  /** entries of directories that are only worth writing when something in them is */
  let held: PlannedEntry[] = [];

  yield* walk(Buffer.from(upper), Buffer.alloc(0));

  async function* walk(directory: Buffer, prefix: Buffer): AsyncGenerator<PlannedEntry> {
    const names = ((await readdir(directory, { encoding: "buffer" }).catch(unlessGone)) ?? []) as Buffer[];
    for (const own of names.sort(Buffer.compare)) {
      const name = prefix.length === 0 ? own : Buffer.concat([prefix, slash, own]);
      if (left.has(key(name))) continue;
      const path = Buffer.concat([directory, slash, own]);
      const stats = await lstat(path, { bigint: true }).catch(unlessGone);
      if (stats === undefined) continue;
      if (isWhiteout(stats)) {
        yield* release({ kind: "whiteout", name });
      } else if (!stats.isDirectory()) {
        // A socket is nothing without the process that listens on it.
        if (!stats.isSocket()) yield* release({ kind: "node", name, path, stats });
      } else {
        const entry: PlannedEntry = { kind: "node", name, path, stats };
        const opaque = isOpaque(path);
        if (above.has(key(name)) && !opaque) {
          const outer = held;
          held = [...held, entry];
          yield* walk(path, name);
          // Nothing of it was written: neither it nor what is held above it.
          if (held.length > 0) held = outer;
          continue;
        }
        yield* release(entry);
        if (opaque) yield { kind: "opaque", name };
        yield* walk(path, name);
      }
    }
  }

  function* release(entry: PlannedEntry): Generator<PlannedEntry> {
    const directories = held;
    held = [];
    yield* directories;
    yield entry;
  }
}

/** Bytes as a text of one character a byte, so that names which are not UTF-8 can be looked up. */
function key(name: Uint8Array): string {
  return Buffer.from(name).toString("latin1");
}

function ancestors(path: string): string[] {
  const found: string[] = [];
  for (let end = path.lastIndexOf("/"); end > 0; end = path.lastIndexOf("/", end - 1)) found.push(path.slice(0, end));
  return found;
}

function isWhiteout(stats: BigIntStats): boolean {
  return stats.isCharacterDevice() && stats.rdev === 0n;
}

function isOpaque(path: Buffer): boolean {
  try {
    const value = getXattr(path, opaqueXattr);
    return value?.length === 1 && value[0] === 0x79;
  } catch (error) {
    return unlessGone(error) ?? false;
  }
}

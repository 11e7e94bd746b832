/**
 * Puts a layer tar in place: into the bare upper directory of an overlay that is not mounted yet, or onto a whole tree.
 * Nothing is written outside the root: names that lead out, and ways through links, are refused.
 */
import { Readable } from "node:stream";
import { extract } from "tar-stream";
import { readEntry } from "./entry.ts";
import type { LayerHeader } from "./format.ts";
import { LayerTarget } from "./target.ts";

export interface ApplyOptions {
  /** the bytes of the layer, as they come */
  readonly layer: Iterable<Uint8Array> | AsyncIterable<Uint8Array>;
  readonly root: string;
  /**
   * `upper`: deletions become overlayfs's own marks, to be seen through once it is mounted; `merged`: what a deletion
   * names is removed
   */
  readonly onto: "upper" | "merged";
}

/** Throws an Error that names the entry. What was put in place until then stays. */
export async function applyLayer({ layer, root, onto }: ApplyOptions): Promise<void> {
  const target = new LayerTarget(root, onto);
  const archive = extract();
  const source = Readable.from(layer, { objectMode: false });
  source.on("error", (error) => archive.destroy(error));
  source.pipe(archive);
  for await (const entry of archive) {
    const { header } = entry;
    try {
      await target.put(readEntry(header as LayerHeader), entry as AsyncIterable<Uint8Array>);
    } catch (error) {
      source.destroy();
      throw new Error(`${header.name}: ${error instanceof Error ? error.message : String(error)}`, { cause: error });
    }
    entry.resume();
  }
  target.finish();
}

/**
 * `vmapp-init restore LAYER UPPER`: puts a layer tar (a file or a disk) into the bare upper directory of an overlay that is
 * about to be mounted. Stage 0 runs it; it needs /proc and the runtime only.
 */
import { createReadStream, statSync } from "node:fs";
import { applyLayer } from "./layer/apply.ts";

const readBytes = 1024 * 1024;

/** Throws a RangeError for arguments it cannot read, and an Error that names the entry that could not be put in place. */
export async function runRestore(args: readonly string[]): Promise<void> {
  const [layer, upper, ...rest] = args;
  if (layer === undefined || upper === undefined || rest.length > 0) {
    throw new RangeError(`cannot read the arguments ${JSON.stringify(args)}: expected LAYER UPPER`);
  }
  if (!statSync(upper).isDirectory()) throw new RangeError(`${upper} is not a directory`);
  await applyLayer({ layer: createReadStream(layer, { highWaterMark: readBytes }), root: upper, onto: "upper" });
}

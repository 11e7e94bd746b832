import { isCompiled } from "../vm/find-program.ts";

/** The command line that runs this CLI again: the executable, or the runtime with the script. */
export function selfCommand(): [string, ...string[]] {
  if (isCompiled()) return [process.execPath];
  const script = process.argv[1];
  if (script === undefined) throw new Error("cannot tell how this CLI was started");
  return [process.execPath, script];
}

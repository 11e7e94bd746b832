import type { ControlConnection } from "../connection.ts";
import { ControlError } from "../error.ts";
import { statEntry } from "../files.ts";

/** What a download begins with. */
export interface TransferRoot {
  readonly kind: "file" | "folder";
  /** bytes of a file; 0 where the guest does not tell */
  readonly size: number;
  /** permission bits */
  readonly mode: number;
}

/** Asks the guest. Throws {@link ControlError} `not_found`, or `bad_request` for what is neither file nor folder. */
export async function transferRoot(control: ControlConnection, path: string): Promise<TransferRoot> {
  const stats = await statEntry(control, path);
  if (stats === undefined) throw new ControlError("not_found", `there is no ${path} in the guest`);
  if (stats.special === true) throw new ControlError("bad_request", `${path} is neither a file nor a folder`);
  return { kind: stats.type === "dir" ? "folder" : "file", size: stats.size, mode: Number.parseInt(stats.perm, 8) };
}

import { chmod, mkdir } from "node:fs/promises";
import type { RequestOf } from "#protocol/control/requests.ts";
import { ok, type Reply } from "../reply.ts";
import { RequestError, systemFailure } from "../request-error.ts";
import { leadsToFolder } from "./attributes.ts";
import type { GuestPaths } from "./guest-paths.ts";

/** `file_mkdir`: with the folders above it; one that exists is no error. */
export async function makeFolder(paths: GuestPaths, request: RequestOf<"file_mkdir">): Promise<Reply> {
  const path = await paths.target(request.path);
  try {
    const created = await mkdir(path, { recursive: true, mode: 0o755 });
    if (created !== undefined && request.perm !== undefined) await chmod(path, Number.parseInt(request.perm, 8));
  } catch (cause) {
    throw systemFailure("mkdir", cause);
  }
  if (!(await leadsToFolder(path))) throw new RequestError("exists", `mkdir failed: ${path} is not a folder`);
  return ok;
}

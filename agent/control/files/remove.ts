import { rm } from "node:fs/promises";
import type { RequestOf } from "#protocol/control/requests.ts";
import { ok, type Reply } from "../reply.ts";
import { RequestError, systemFailure } from "../request-error.ts";
import type { GuestPaths } from "./guest-paths.ts";
import { refuseMounts } from "./mount-guard.ts";

/** `file_delete`: a folder with all that is in it; a link itself, never what it points to. */
export async function removeEntry(paths: GuestPaths, request: RequestOf<"file_delete">): Promise<Reply> {
  const path = await paths.entry(request.path);
  if (path === paths.root) throw new RequestError("denied", `${path} cannot be removed`);
  await refuseMounts(path);
  try {
    await rm(path, { recursive: true });
  } catch (cause) {
    throw systemFailure("delete", cause);
  }
  return ok;
}

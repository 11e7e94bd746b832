import { lstat, readlink, stat } from "node:fs/promises";
import type { RequestOf } from "#protocol/control/requests.ts";
import type { Reply } from "../reply.ts";
import { systemFailure } from "../request-error.ts";
import { isSpecial, leadsToFolder, permOf, typeOf } from "./attributes.ts";
import type { GuestPaths } from "./guest-paths.ts";

/** *Extension* `file_stat`: one entry as in `file_list`, links followed unless `nofollow`; `mtime` with its fraction. */
export async function statEntry(paths: GuestPaths, request: RequestOf<"file_stat">): Promise<Reply> {
  const path = request.nofollow === true ? await paths.entry(request.path) : await paths.target(request.path);
  try {
    const stats = request.nofollow === true ? await lstat(path) : await stat(path);
    const type = typeOf(stats);
    return {
      fields: {
        t: "file_stat",
        type,
        link_target_dir: type === "link" && (await leadsToFolder(path)),
        ...(type === "link" ? { target: await readlink(path) } : {}),
        ...(isSpecial(stats) ? { special: true } : {}),
        size: stats.size,
        perm: permOf(stats),
        mtime: stats.mtimeMs / 1000,
        uid: stats.uid,
        gid: stats.gid,
      },
    };
  } catch (cause) {
    throw systemFailure("stat", cause);
  }
}

import { lstat, readdir } from "node:fs/promises";
import { join } from "node:path";
import { maxFrameBytes } from "#protocol/control/limits.ts";
import type { FileEntry } from "#protocol/control/replies.ts";
import type { RequestOf } from "#protocol/control/requests.ts";
import type { Reply } from "../reply.ts";
import { RequestError, systemFailure } from "../request-error.ts";
import { isSpecial, leadsToFolder, permOf, typeOf } from "./attributes.ts";
import type { GuestPaths } from "./guest-paths.ts";

/** entries looked at side by side */
const batch = 128;

/** what the envelope, the id and the brackets may take of a frame */
const reservedBytes = 128 * 1024;

const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/**
 * `file_list`. Without `limit` the whole folder or `too_large`; with it a page of at most that many entries after the name
 * `after`, and `more` when others follow. Names that are not UTF-8 cannot be expressed: `not_utf8` counts them.
 */
export async function listFolder(paths: GuestPaths, request: RequestOf<"file_list">): Promise<Reply> {
  const path = await paths.target(request.path);
  const { names, notUtf8 } = await namesOf(path);
  const { after, limit } = request;
  const wanted = after === undefined ? names : names.filter((name) => name > after);
  const entries: FileEntry[] = [];
  let bytes = reservedBytes;
  let more = false;
  for (let start = 0; start < wanted.length && !more; start += batch) {
    const found = await Promise.all(wanted.slice(start, start + batch).map((name) => entryOf(path, name)));
    for (const entry of found) {
      if (entry === undefined) continue;
      bytes += Buffer.byteLength(JSON.stringify(entry)) + 1;
      const full = bytes > maxFrameBytes;
      if (full && limit === undefined) {
        throw new RequestError("too_large", `${path} has ${names.length} entries, more than one reply can hold`);
      }
      if (full || entries.length === limit) {
        more = true;
        break;
      }
      entries.push(entry);
    }
  }
  return {
    fields: { t: "ok", entries, ...(more ? { more } : {}), ...(notUtf8 > 0 ? { not_utf8: notUtf8 } : {}) },
  };
}

async function namesOf(path: string): Promise<{ names: string[]; notUtf8: number }> {
  let raw: Buffer[];
  try {
    raw = await readdir(path, { encoding: "buffer" });
  } catch (cause) {
    throw systemFailure("list", cause);
  }
  const names: string[] = [];
  for (const name of raw) {
    try {
      names.push(utf8.decode(name));
    } catch {
      // Counted below.
    }
  }
  names.sort((a, b) => (a < b ? -1 : 1));
  return { names, notUtf8: raw.length - names.length };
}

/** Undefined for what has vanished since the folder was read. */
async function entryOf(folder: string, name: string): Promise<(FileEntry & { special?: true }) | undefined> {
  const path = join(folder, name);
  try {
    const stats = await lstat(path);
    const type = typeOf(stats);
    return {
      name,
      type,
      link_target_dir: type === "link" && (await leadsToFolder(path)),
      size: stats.size,
      perm: permOf(stats),
      mtime: Math.floor(stats.mtimeMs / 1000),
      ...(isSpecial(stats) ? { special: true } : {}),
    };
  } catch {
    return undefined;
  }
}

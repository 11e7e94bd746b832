/** The file requests over one connection: paths are the guest's, absolute. What touches the host's disk is in transfer/. */
import { posix } from "node:path";
import type { WireMessage } from "#protocol/control/message.ts";
import {
  type FileData,
  type FileEntry,
  type FileStat,
  fileDataReply,
  fileListReply,
  fileStatReply,
} from "#protocol/control/replies.ts";
import { ContentCheck, maxTrailerBytes, preferredTrailer } from "#protocol/control/trailer.ts";
import type { ControlConnection } from "./connection.ts";
import { timeouts } from "./core.ts";
import { ControlError } from "./error.ts";
import { checkedUpload, type UploadSource } from "./upload.ts";

/** entries a page: well below the 4 MiB of a frame */
const pageEntries = 4_000;

export interface FolderContent {
  /** sorted by name from our own daemon; all of them, however many */
  readonly entries: readonly FileEntry[];
  /** entries whose names are not UTF-8, which cannot be expressed; 0 from a stock daemon, which does not tell */
  readonly notUtf8: number;
}

/** The entries of a folder. */
export async function listFolder(control: ControlConnection, path: string): Promise<FolderContent> {
  const paged = control.hasCap("file.page");
  const entries: FileEntry[] = [];
  for (;;) {
    const after = entries.at(-1)?.name;
    const page = paged ? { limit: pageEntries, ...(after === undefined ? {} : { after }) } : {};
    const what = `file_list ${path}`;
    const reply = await control.request({ t: "file_list", path, ...page }, { timeoutMs: timeouts.medium, what });
    const parsed = fileListReply.safeParse(reply);
    if (!parsed.success) throw new ControlError("protocol", `${what}: the answer is no list of entries`);
    entries.push(...parsed.data.entries);
    const last = parsed.data.entries.at(-1)?.name;
    if (parsed.data.more !== true) return { entries, notUtf8: parsed.data.not_utf8 ?? 0 };
    if (last === undefined || (after !== undefined && last <= after))
      throw new ControlError("protocol", `${what}: the pages of the list do not come to an end`);
  }
}

/** *Extension* `file.stat`; links are followed unless `nofollow`. Undefined when there is nothing at that path. */
export async function statEntry(
  control: ControlConnection,
  path: string,
  { nofollow }: { nofollow?: boolean } = {},
): Promise<FileStat | undefined> {
  const what = `file_stat ${path}`;
  if (!control.hasCap("file.stat")) return findInFolder(control, path);
  let reply: WireMessage;
  try {
    const request = { t: "file_stat", path, ...(nofollow === true ? { nofollow } : {}) };
    reply = await control.request(request, { timeoutMs: timeouts.medium, what });
  } catch (error) {
    if (error instanceof ControlError && error.code === "not_found") return undefined;
    throw error;
  }
  const parsed = fileStatReply.safeParse(reply);
  if (!parsed.success) throw new ControlError("protocol", `${what}: the answer describes no entry`);
  return parsed.data;
}

/** What a stock daemon can tell: the entry as its folder's list has it, a link to a folder taken for one. */
async function findInFolder(control: ControlConnection, path: string): Promise<FileStat | undefined> {
  const folder: FileStat = { type: "dir", link_target_dir: false, size: 0, perm: "755", mtime: 0 };
  if (posix.normalize(path) === "/") return folder;
  const normal = posix.normalize(path).replace(/\/$/, "");
  let entries: readonly FileEntry[];
  try {
    entries = (await listFolder(control, posix.dirname(normal))).entries;
  } catch (error) {
    if (error instanceof ControlError && error.code === "refused") return undefined;
    throw error;
  }
  const entry = entries.find(({ name }) => name === posix.basename(normal));
  return entry?.link_target_dir === true ? { ...folder, perm: entry.perm, mtime: entry.mtime } : entry;
}

/** Makes a folder and those above it; one that exists is no error. *Extension*: `mode`, of a folder that is new. */
export async function makeFolder(
  control: ControlConnection,
  path: string,
  { mode }: { mode?: number | undefined } = {},
): Promise<void> {
  const perm = mode === undefined ? {} : { perm: (mode & 0o777).toString(8) };
  await control.request({ t: "file_mkdir", path, ...perm }, { timeoutMs: timeouts.medium, what: `file_mkdir ${path}` });
}

/** Removes a file, a link, or a folder with all that is in it. */
export async function removeEntry(control: ControlConnection, path: string): Promise<void> {
  await control.request({ t: "file_delete", path }, { timeoutMs: timeouts.medium, what: `file_delete ${path}` });
}

/** Moves an entry; fails with `exists` rather than replace one. */
export async function renameEntry(control: ControlConnection, from: string, to: string): Promise<void> {
  await control.request({ t: "file_rename", from, to }, { timeoutMs: timeouts.medium, what: `file_rename ${from}` });
}

export interface PutOptions {
  /** permission bits; 0o644 when absent */
  readonly mode?: number | undefined;
  /** *extension*: seconds since the epoch */
  readonly mtime?: number | undefined;
  /** *extension*: false leaves the flush to disk to the guest's system */
  readonly sync?: boolean | undefined;
  readonly onProgress?: ((bytesSent: number) => void) | undefined;
}

/**
 * Uploads a file. With our own daemon its content is checked on the way; a source that changes meanwhile then fails with `changed`,
 * the guest's file stays as it was and the connection usable. With a stock daemon the connection has to be closed for that.
 */
export async function putFile(
  control: ControlConnection,
  path: string,
  source: UploadSource,
  { mode = 0o644, mtime, sync, onProgress }: PutOptions = {},
): Promise<void> {
  const what = `file_put ${path}`;
  const limit = control.hello.max_put;
  if (limit !== undefined && source.size + maxTrailerBytes > limit)
    throw new ControlError("too_large", `${what}: ${source.size} bytes are over the guest's limit of ${limit}`);
  if (!control.hasCap("file")) throw new ControlError("unavailable", `${what}: the guest takes no files`);
  const checked = control.hasCap("file.trailer") ? checkedUpload(source) : undefined;
  const upload = { size: source.size, pieces: source.pieces, onProgress, ...checked?.upload };
  try {
    await control.request(
      {
        t: "file_put",
        path,
        size: upload.size,
        perm: (mode & 0o777).toString(8),
        ...(checked === undefined ? {} : { trailer: checked.trailer }),
        ...(mtime === undefined ? {} : { mtime }),
        ...(sync === undefined ? {} : { sync }),
      },
      { timeoutMs: timeouts.transfer, what, upload },
    );
  } catch (error) {
    throw checked?.failure(what) ?? error;
  }
}

export interface GetOptions {
  /** *extension* `file.range`: first byte wanted */
  readonly offset?: number | undefined;
  /** *extension* `file.range`: bytes wanted at most */
  readonly length?: number | undefined;
  /** called once, before the first piece, with what the guest announced: the size without the trailer */
  readonly onStart?: ((data: FileData) => Promise<void> | void) | undefined;
  readonly onPiece: (piece: Uint8Array) => Promise<void> | void;
}

/**
 * Downloads a file piece by piece, nothing held in memory. With our own daemon the content is verified at the end: `changed` when it
 * changed in the guest meanwhile, `hash_mismatch` when it was damaged on the way.
 */
export async function getFile(
  control: ControlConnection,
  path: string,
  { offset, length, onStart, onPiece }: GetOptions,
): Promise<FileData> {
  const what = `file_get ${path}`;
  const ranged = offset !== undefined || length !== undefined;
  if (ranged && !control.hasCap("file.range"))
    throw new ControlError("unavailable", `${what}: the guest sends whole files only`);
  const receiver = new CheckedReceiver(what, onStart, onPiece);
  const reply = await control.request(
    {
      t: "file_get",
      path,
      ...(offset === undefined ? {} : { offset }),
      ...(length === undefined ? {} : { length }),
      ...(control.hasCap("file.trailer") ? { trailer: preferredTrailer } : {}),
    },
    { timeoutMs: timeouts.transfer, what, sink: (piece, message) => receiver.take(piece, message) },
  );
  return receiver.finish(reply);
}

/** Parts the content from the trailer behind it. */
class CheckedReceiver {
  readonly #trailer: Uint8Array[] = [];
  #check: ContentCheck | undefined;
  #data: FileData | undefined;
  /** content bytes still to come */
  #left = 0;

  constructor(
    readonly what: string,
    readonly onStart: GetOptions["onStart"],
    readonly onPiece: GetOptions["onPiece"],
  ) {}

  async take(piece: Uint8Array, message: WireMessage): Promise<void> {
    if (this.#data === undefined) await this.#begin(message);
    const content = piece.subarray(0, this.#left);
    this.#left -= content.length;
    if (content.length < piece.length) this.#trailer.push(piece.subarray(content.length));
    if (content.length === 0) return;
    const taken = this.onPiece(content);
    this.#check?.update(content);
    await taken;
  }

  async finish(message: WireMessage): Promise<FileData> {
    const data = this.#data ?? (await this.#begin(message));
    switch (this.#check?.judge(Buffer.concat(this.#trailer))) {
      case undefined:
      case "whole":
        return data;
      case "called off":
        throw new ControlError("changed", `${this.what}: the file changed while it was read`);
      case "damaged":
        throw new ControlError("hash_mismatch", `${this.what}: the content was damaged on the way`);
    }
  }

  async #begin(message: WireMessage): Promise<FileData> {
    const parsed = fileDataReply.safeParse(message);
    if (!parsed.success) throw new ControlError("protocol", `${this.what}: answered with ${JSON.stringify(message.t)}`);
    const { trailer, size } = parsed.data;
    this.#check = trailer === undefined ? undefined : new ContentCheck(trailer);
    this.#left = size - (this.#check?.length ?? 0);
    if (this.#left < 0) throw new ControlError("protocol", `${this.what}: no room for the trailer`);
    this.#data = { ...parsed.data, size: this.#left };
    await this.onStart?.(this.#data);
    return this.#data;
  }
}

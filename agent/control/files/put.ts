import { createHash, randomBytes } from "node:crypto";
import { constants } from "node:fs";
import { type FileHandle, mkdir, open, rename, rmdir, stat, unlink } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileTime } from "#protocol/control/file-time.ts";
import type { RequestOf } from "#protocol/control/requests.ts";
import { ContentCheck } from "#protocol/control/trailer.ts";
import { freeBytes } from "../free-space.ts";
import { ok, type Reply, type RequestBody } from "../reply.ts";
import { RequestError, systemFailure } from "../request-error.ts";
import { type GuestPaths, isBeneath } from "./guest-paths.ts";

const defaultPerm = 0o644;

/** from this size on, an upload that cannot succeed is refused before it has been received */
const checkedBytes = 1024 * 1024;

/**
 * `file_put`: into a new file beside the target, which it then replaces in one step. Whatever fails, the old target stays and
 * nothing is left behind; the session skips what has not been received.
 */
export async function putFile(paths: GuestPaths, request: RequestOf<"file_put">, body: RequestBody): Promise<Reply> {
  const path = await paths.entry(request.path);
  if (path === "/") throw new RequestError("exists", "rename failed: / is a folder");
  const folder = dirname(path);
  const { file, temporary, made } = await createTemporary(folder);
  try {
    try {
      if (body.size >= checkedBytes) await refuseEarly(path, folder, body.size);
      await receive(file, request, body);
      await file.chmod(request.perm === undefined ? defaultPerm : Number.parseInt(request.perm, 8));
      if (request.mtime !== undefined) await file.utimes(fileTime(request.mtime), fileTime(request.mtime));
      if (request.sync !== false) await file.sync();
    } finally {
      await file.close();
    }
    await rename(temporary, path).catch((cause: unknown) => {
      throw systemFailure("rename", cause);
    });
  } catch (error) {
    await unlink(temporary).catch(() => {});
    if (made !== undefined) await removeEmpty(folder, made);
    throw error;
  }
  if (request.sync !== false) await syncFolder(folder);
  return ok;
}

interface Temporary {
  readonly file: FileHandle;
  readonly temporary: string;
  /** the topmost of the folders that had to be made */
  readonly made?: string | undefined;
}

/** Missing folders are made on the way. The name says nothing of the target's, which may fill its 255 bytes. */
async function createTemporary(folder: string): Promise<Temporary> {
  const temporary = join(folder, `.vmapp-${randomBytes(8).toString("hex")}.part`);
  const create = (): Promise<FileHandle> =>
    open(temporary, constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW, 0o600);
  try {
    return { file: await create(), temporary };
  } catch (cause) {
    if (Reflect.get(Object(cause), "code") !== "ENOENT") throw systemFailure("create", cause);
  }
  let made: string | undefined;
  try {
    made = await mkdir(folder, { recursive: true, mode: 0o755 });
    return { file: await create(), temporary, made };
  } catch (cause) {
    if (made !== undefined) await removeEmpty(folder, made);
    throw systemFailure("create", cause);
  }
}

/** Removes the folder and those above it up to `topmost`, as far as nobody else has put anything there. */
async function removeEmpty(folder: string, topmost: string): Promise<void> {
  try {
    for (let each = folder; isBeneath(each, topmost); each = dirname(each)) await rmdir(each);
  } catch {
    // In use by now.
  }
}

async function refuseEarly(path: string, folder: string, size: number): Promise<void> {
  const target = await stat(path).catch(() => undefined);
  if (target?.isDirectory()) throw new RequestError("exists", `rename failed: ${path} is a folder`);
  const free = await freeBytes(folder);
  if (free !== undefined && size > free)
    throw new RequestError("no_space", `the file does not fit: ${folder} has ${free} bytes free`);
}

/** Writes the content and checks it against what was announced, before or behind it. */
async function receive(file: FileHandle, request: RequestOf<"file_put">, body: RequestBody): Promise<void> {
  const hash = request.sha256 === undefined ? undefined : createHash("sha256");
  const check = request.trailer === undefined ? undefined : new ContentCheck(request.trailer);
  const size = body.size - (check?.length ?? 0);
  if (size < 0) throw new RequestError("bad_request", "file_put: no room for the trailer");
  const behind = await write(file, body, size, (content) => {
    hash?.update(content);
    check?.update(content);
  });
  if (check !== undefined) refuseUnlessWhole(check, await collect(behind, body));
  if (hash !== undefined && hash.digest("hex") !== request.sha256) throw damaged();
}

function refuseUnlessWhole(check: ContentCheck, trailer: Uint8Array): void {
  switch (check.judge(trailer)) {
    case "whole":
      return;
    case "called off":
      throw new RequestError("hash_mismatch", "file transfer failed: the sender called it off");
    case "damaged":
      throw damaged();
  }
}

function damaged(): RequestError {
  return new RequestError("hash_mismatch", "file transfer failed: the content is not what was announced");
}

/** Writes exactly `size` bytes. Returns what the last piece held beyond them. */
async function write(
  file: FileHandle,
  body: RequestBody,
  size: number,
  onContent: (content: Uint8Array) => void,
): Promise<Uint8Array> {
  let left = size;
  while (left > 0) {
    const piece = await body.next();
    if (piece === undefined) break;
    const content = piece.subarray(0, left);
    left -= content.length;
    const written = writeAll(file, content);
    onContent(content);
    await written;
    if (left === 0) return piece.subarray(content.length);
  }
  return new Uint8Array(0);
}

async function writeAll(file: FileHandle, content: Uint8Array): Promise<void> {
  try {
    for (let written = 0; written < content.length; ) {
      written += (await file.write(content, written, content.length - written, null)).bytesWritten;
    }
  } catch (cause) {
    throw systemFailure("file transfer", cause);
  }
}

async function collect(first: Uint8Array, body: RequestBody): Promise<Buffer> {
  const pieces = [first];
  for (let piece = await body.next(); piece !== undefined; piece = await body.next()) pieces.push(piece);
  return Buffer.concat(pieces);
}

/** A rename is on disk only once its folder is. */
async function syncFolder(folder: string): Promise<void> {
  try {
    const handle = await open(folder, constants.O_RDONLY | constants.O_DIRECTORY);
    await handle.sync().finally(() => handle.close());
  } catch {
    // Some filesystems refuse to flush a folder; the file itself is safe there.
  }
}

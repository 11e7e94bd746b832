import { createHash } from "node:crypto";
import { constants, type Stats } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { trailerBytes } from "#protocol/control/limits.ts";
import type { RequestOf } from "#protocol/control/requests.ts";
import type { Reply } from "../reply.ts";
import { BrokenReplyError, RequestError, systemFailure } from "../request-error.ts";
import { permOf } from "./attributes.ts";
import type { GuestPaths } from "./guest-paths.ts";

const chunkBytes = 256 * 1024;

/** Up to this size a file is read before its size is announced, so that nothing can go wrong in between. */
const wholeBytes = 64 * 1024;

/** what procfs and the like may hold: their files have no size, or one that means nothing */
const unsizedBytes = 1024 * 1024;

type Send = (chunk: Uint8Array) => Promise<void>;

/**
 * `file_get`. Sends exactly as many bytes as it announced: what a file gains meanwhile is left out, and one that loses bytes
 * breaks the connection, which is all that v1 allows. With `sha256: "trailer"` 32 bytes more follow, counted in `size`:
 * the hash of what was sent, or zeros when the file changed meanwhile; the stream stays in step then.
 */
export async function getFile(paths: GuestPaths, request: RequestOf<"file_get">): Promise<Reply> {
  const path = request.nofollow === true ? await paths.entry(request.path) : await paths.target(request.path);
  const nofollow = request.nofollow === true ? constants.O_NOFOLLOW : 0;
  let file: FileHandle;
  try {
    // Non-blocking: the opening of a FIFO would wait for a writer.
    file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK | nofollow);
  } catch (cause) {
    throw systemFailure("open", cause);
  }
  try {
    return await replyFrom(file, request);
  } catch (error) {
    await file.close();
    throw systemFailure("read", error);
  }
}

async function replyFrom(file: FileHandle, request: RequestOf<"file_get">): Promise<Reply> {
  const stats = await file.stat();
  if (!stats.isFile()) throw new RequestError("bad_request", "not a regular file");
  const { offset = 0, length = Number.MAX_SAFE_INTEGER } = request;
  const trailer = request.sha256 === "trailer";
  const unsized = stats.blocks === 0 && stats.size <= unsizedBytes;
  const whole = unsized || stats.size <= wholeBytes ? await readWhole(file) : undefined;
  const size = Math.max(0, Math.min(whole?.length ?? stats.size, offset + length) - offset);
  const fields = {
    t: "file_data",
    size: size + (trailer ? trailerBytes : 0),
    perm: permOf(stats),
    mtime: stats.mtimeMs / 1000,
    total: whole?.length ?? stats.size,
    ...(trailer ? { sha256: "trailer" } : {}),
  };
  const content = { file, whole, stats, offset, size };
  return {
    fields,
    body: (send) => (trailer ? sendHashed(content, send) : sendPlain(content, send)),
    close: () => file.close(),
  };
}

/** The content of a file that is small, or of which only reading tells the size. */
async function readWhole(file: FileHandle): Promise<Buffer> {
  const buffer = Buffer.allocUnsafe(unsizedBytes + 1);
  let filled = 0;
  for (;;) {
    const { bytesRead } = await file.read(buffer, filled, buffer.length - filled, filled);
    if (bytesRead === 0) return buffer.subarray(0, filled);
    filled += bytesRead;
    if (filled > unsizedBytes) {
      throw new RequestError("too_large", `the file does not say its size and has more than ${unsizedBytes} bytes`);
    }
  }
}

interface Content {
  readonly file: FileHandle;
  /** the file's content where it was read beforehand */
  readonly whole: Buffer | undefined;
  /** as of the announcement */
  readonly stats: Stats;
  readonly offset: number;
  /** bytes to send */
  readonly size: number;
}

async function sendPlain(content: Content, send: Send): Promise<void> {
  const sent = await sendContent(content, send);
  if (sent < content.size)
    throw new BrokenReplyError(`a file lost ${content.size - sent} of ${content.size} bytes while it was read`);
}

async function sendHashed(content: Content, send: Send): Promise<void> {
  const hash = createHash("sha256");
  const sent = await sendContent(content, (chunk) => {
    hash.update(chunk);
    return send(chunk);
  });
  for (let missing = content.size - sent; missing > 0; missing -= chunkBytes) {
    await send(Buffer.alloc(Math.min(missing, chunkBytes)));
  }
  const intact = sent === content.size && !(await changed(content));
  await send(intact ? hash.digest() : Buffer.alloc(trailerBytes));
}

/** Returns the bytes sent, which are fewer than announced when the file ends early or cannot be read any further. */
async function sendContent({ file, whole, offset, size }: Content, send: Send): Promise<number> {
  if (whole !== undefined) {
    if (size > 0) await send(whole.subarray(offset, offset + size));
    return size;
  }
  let sent = 0;
  while (sent < size) {
    const chunk = Buffer.allocUnsafe(Math.min(chunkBytes, size - sent));
    const bytesRead = await file.read(chunk, 0, chunk.length, offset + sent).then(
      (result) => result.bytesRead,
      () => 0,
    );
    if (bytesRead === 0) return sent;
    await send(chunk.subarray(0, bytesRead));
    sent += bytesRead;
  }
  return sent;
}

async function changed({ file, whole, stats }: Content): Promise<boolean> {
  if (whole !== undefined) return false;
  const now = await file.stat();
  return now.size !== stats.size || now.mtimeMs !== stats.mtimeMs;
}

import { constants, type Stats } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import type { RequestOf } from "#protocol/control/requests.ts";
import { ContentCheck } from "#protocol/control/trailer.ts";
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
 * breaks the connection, which is all that v1 allows. With a trailer such a file is called off, and the stream stays in step.
 */
export async function getFile(paths: GuestPaths, request: RequestOf<"file_get">): Promise<Reply> {
  const path = request.nofollow === true ? await paths.entry(request.path) : await paths.target(request.path);
  const nofollow = request.nofollow === true ? constants.O_NOFOLLOW : 0;
  let file: FileHandle;
  try {
    // The opening of a FIFO would wait for a writer; that of a terminal would make it the agent's own, hang-ups included.
    file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOCTTY | nofollow);
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
  const check = request.trailer === undefined ? undefined : new ContentCheck(request.trailer);
  const unsized = stats.blocks === 0 && stats.size <= unsizedBytes;
  const whole = unsized || stats.size <= wholeBytes ? await readWhole(file) : undefined;
  const size = Math.max(0, Math.min(whole?.length ?? stats.size, offset + length) - offset);
  const fields = {
    t: "file_data",
    size: size + (check?.length ?? 0),
    perm: permOf(stats),
    mtime: stats.mtimeMs / 1000,
    total: whole?.length ?? stats.size,
    ...(check === undefined ? {} : { trailer: check.kind }),
  };
  const content = { file, whole, stats, offset, size };
  return {
    fields,
    body: (send) => (check === undefined ? sendPlain(content, send) : sendChecked(content, check, send)),
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

async function sendChecked(content: Content, check: ContentCheck, send: Send): Promise<void> {
  const sent = await sendContent(content, (chunk) => {
    check.update(chunk);
    return send(chunk);
  });
  for (let missing = content.size - sent; missing > 0; missing -= chunkBytes) {
    await send(Buffer.alloc(Math.min(missing, chunkBytes)));
  }
  const intact = sent === content.size && !(await changed(content));
  await send(intact ? check.seal() : check.callOff());
}

/** Returns the bytes sent, which are fewer than announced when the file ends early or cannot be read any further. */
async function sendContent({ file, whole, offset, size }: Content, send: Send): Promise<number> {
  if (whole !== undefined) {
    if (size > 0) await send(whole.subarray(offset, offset + size));
    return size;
  }
  // The next chunk is read while the one before it is sent.
  let ahead = readChunk(file, offset, size);
  let sent = 0;
  try {
    for (;;) {
      const chunk = await ahead;
      if (chunk.length === 0) return sent;
      sent += chunk.length;
      ahead = readChunk(file, offset + sent, size - sent);
      await send(chunk);
    }
  } finally {
    // The file is closed next.
    await ahead;
  }
}

/** At most so many bytes; none at the end, and none of a file that cannot be read any further. */
async function readChunk(file: FileHandle, offset: number, wanted: number): Promise<Buffer> {
  if (wanted === 0) return Buffer.alloc(0);
  const chunk = Buffer.allocUnsafe(Math.min(chunkBytes, wanted));
  try {
    const { bytesRead } = await file.read(chunk, 0, chunk.length, offset);
    return chunk.subarray(0, bytesRead);
  } catch {
    return Buffer.alloc(0);
  }
}

async function changed({ file, whole, stats }: Content): Promise<boolean> {
  if (whole !== undefined) return false;
  const now = await file.stat();
  return now.size !== stats.size || now.mtimeMs !== stats.mtimeMs;
}

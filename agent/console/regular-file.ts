/** Opens what a `read` or a `write` names, and nothing that could block the session or act when it is opened. */
import { constants, type Stats } from "node:fs";
import { type FileHandle, open, stat } from "node:fs/promises";
import { ConsoleError } from "#protocol/console/errors.ts";

/** The kind of a file that is neither a directory nor regular, with its article. */
function otherKind(stats: Stats): string {
  if (stats.isFIFO()) return "a FIFO";
  if (stats.isSocket()) return "a socket";
  if (stats.isCharacterDevice()) return "a character device";
  return "a block device";
}

function refuseOther(stats: Stats, asSent: string): void {
  if (stats.isDirectory()) throw new ConsoleError("isDirectory", `${asSent}: is a directory`);
  if (!stats.isFile()) throw new ConsoleError("ioFailed", `${asSent}: is ${otherKind(stats)}, not a file`);
}

export interface OpenedFile {
  readonly handle: FileHandle;
  readonly stats: Stats;
}

/**
 * Opens a regular file; links are followed. Throws the filesystem's error, or ConsoleError for anything else.
 * The caller closes the handle.
 */
export async function openRegular(path: string, asSent: string, flags: number): Promise<OpenedFile> {
  const creates = (flags & constants.O_CREAT) !== 0;
  try {
    // Before opening: a FIFO would block, and some devices act on being opened.
    refuseOther(await stat(path), asSent);
  } catch (error) {
    if (!creates || !(error instanceof Error && "code" in error && error.code === "ENOENT")) throw error;
  }
  const handle = await open(path, flags | constants.O_NONBLOCK | constants.O_NOCTTY, 0o666);
  try {
    const stats = await handle.stat();
    refuseOther(stats, asSent);
    return { handle, stats };
  } catch (error) {
    await handle.close();
    throw error;
  }
}

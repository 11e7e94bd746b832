/** Files of the image that PID 1 reads. An image may hold anything under their names, and PID 1 must not wait for it. */
import { closeSync, constants, fstatSync, openSync, readFileSync } from "node:fs";

const mostBytes = 1024 * 1024;

/** The text of a regular file; undefined when there is none of that name. Throws an Error for anything else, and for a system error. */
export function readImageFile(path: string): string | undefined {
  let fd: number;
  try {
    // Opened for reading, a FIFO waits for a writer.
    fd = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOCTTY);
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ENOENT") return undefined;
    throw error;
  }
  try {
    const stats = fstatSync(fd);
    if (!stats.isFile()) throw new Error("it is not a regular file");
    if (stats.size > mostBytes) throw new Error(`it has ${stats.size} bytes, ${mostBytes} are allowed`);
    return readFileSync(fd, "utf8");
  } finally {
    closeSync(fd);
  }
}

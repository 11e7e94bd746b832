/** Where a file has data and where only holes. */
import { SysError } from "./errors.ts";
import { errno, libc } from "./libc.ts";

const SEEK_DATA = 3;
const SEEK_HOLE = 4;
const ENXIO = 6;

export interface Extent {
  /** bytes from the start of the file */
  readonly offset: number;
  /** bytes of data */
  readonly length: number;
}

/**
 * The parts of an open file that hold data, in order; what is between them reads as zeroes. A filesystem that knows no
 * holes answers with one extent. Moves the descriptor's position. Errors: SysError.
 */
export function dataExtents(fd: number, size: number): Extent[] {
  const extents: Extent[] = [];
  let position = 0;
  while (position < size) {
    const offset = seek(fd, position, SEEK_DATA);
    if (offset === undefined || offset >= size) break;
    const end = Math.min(seek(fd, offset, SEEK_HOLE) ?? size, size);
    extents.push({ offset, length: end - offset });
    position = end;
  }
  return extents;
}

/** The next position of that kind, or undefined when there is none any more. */
function seek(fd: number, position: number, whence: number): number | undefined {
  const found = Number(libc.lseek(fd, position, whence));
  if (found >= 0) return found;
  const number = errno();
  if (number === ENXIO) return undefined;
  throw new SysError("lseek", number, `fd ${fd}`);
}

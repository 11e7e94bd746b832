/** The size of the local terminal, and what happens when it changes. */
import type { WriteStream } from "node:tty";

/** in character cells */
export interface WindowSize {
  readonly rows: number;
  readonly cols: number;
}

/** a window that is dragged changes its size many times a second, of which the last one counts; in milliseconds */
const settleMs = 20;
const maxCells = 0xffff;

/** The size now, or undefined for a terminal that does not know it, and for what is no terminal. */
export function windowSize(output: WriteStream): WindowSize | undefined {
  if (!output.isTTY) return undefined;
  const [cols, rows] = output.getWindowSize();
  return isCells(rows) && isCells(cols) ? { rows, cols } : undefined;
}

function isCells(count: number): boolean {
  return Number.isInteger(count) && count > 0 && count <= maxCells;
}

/**
 * Calls back with every size that differs from the one before, beginning with `known`, which the other end has. Sizes in
 * quick succession are left out, the last one never. Returns what ends it.
 */
export function followWindowSize({
  output,
  known,
  changed,
}: {
  output: WriteStream;
  known: WindowSize | undefined;
  changed: (size: WindowSize) => void;
}): () => void {
  let last = known;
  let timer: NodeJS.Timeout | undefined;
  const look = (): void => {
    timer = undefined;
    const size = windowSize(output);
    if (size === undefined || (size.rows === last?.rows && size.cols === last.cols)) return;
    last = size;
    changed(size);
  };
  // Asked when the timer fires, not when the signal comes: so the last size is the one that is sent.
  const onChange = (): void => {
    timer ??= setTimeout(look, settleMs);
  };
  process.on("SIGWINCH", onChange);
  process.on("SIGCONT", onChange);
  look();
  return () => {
    process.off("SIGWINCH", onChange);
    process.off("SIGCONT", onChange);
    clearTimeout(timer);
  };
}

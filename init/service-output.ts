/** Passes a service's output on line by line, each with the service's name before it. */

/** longer lines are cut into pieces, so that a service that never ends a line cannot fill PID 1's memory */
const longestLineBytes = 4096;
const newline = 0x0a;

/**
 * Reads to the end. `write` takes whole lines; the next piece is read when it has resolved, so a console that is slow
 * slows the service down.
 */
export async function prefixLines({
  output,
  name,
  write,
}: {
  output: AsyncIterable<Uint8Array>;
  name: string;
  write: (lines: Uint8Array) => Promise<void>;
}): Promise<void> {
  const prefix = Buffer.from(`${name}: `);
  const end = Buffer.from("\n");
  let pending: Uint8Array = Buffer.alloc(0);
  for await (const chunk of output) {
    const bytes = Buffer.concat([pending, chunk]);
    const pieces: Uint8Array[] = [];
    let start = 0;
    while (start < bytes.length) {
      const found = bytes.indexOf(newline, start);
      const stop = found < 0 ? bytes.length : found;
      if (found < 0 && stop - start < longestLineBytes) break;
      const cut = Math.min(stop, start + longestLineBytes);
      pieces.push(prefix, bytes.subarray(start, cut), end);
      start = cut === found ? found + 1 : cut;
    }
    pending = bytes.subarray(start);
    if (pieces.length > 0) await write(Buffer.concat(pieces));
  }
  if (pending.length > 0) await write(Buffer.concat([prefix, pending, end]));
}

/** Passes a service's output on line by line, each with the service's name before it. */

/** longer lines are cut into pieces, so that a service that never ends a line cannot fill PID 1's memory */
const longestLineBytes = 4096;
const newline = 0x0a;

/** What a service prints over its runs: bytes, and where one of them ends, which ends its last line. */
export type ServiceOutput = Uint8Array | "end of run";

/**
 * Reads to the end. `write` takes whole lines; the next piece is read when it has resolved, so a console that is slow
 * slows the service down.
 */
export async function prefixLines({
  output,
  name,
  write,
}: {
  output: AsyncIterable<ServiceOutput>;
  name: string;
  write: (lines: Uint8Array) => Promise<void>;
}): Promise<void> {
  const prefix = Buffer.from(`${name}: `);
  const end = Buffer.from("\n");
  let pending: Uint8Array = Buffer.alloc(0);
  for await (const piece of output) {
    if (piece === "end of run" && pending.length === 0) continue;
    const bytes = Buffer.concat([pending, piece === "end of run" ? end : piece]);
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

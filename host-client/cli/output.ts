import type { Writable } from "node:stream";
import { visible } from "./visible.ts";

/** Whoever read our output has gone: there is nobody to tell anything. */
export class OutputClosed extends Error {
  override readonly name = "OutputClosed";
}

/** Exit status when the reader of our output has gone, as a shell reports for a program that SIGPIPE ended. */
export const outputClosedStatus = 141;

/** Those of our output streams that are in use. Opening one takes milliseconds, so that waits until there is something to write. */
const opened = new Set<Writable>();

export function standardOutput(): typeof process.stdout {
  return open(process.stdout);
}

export function standardError(): typeof process.stderr {
  return open(process.stderr);
}

function open<S extends Writable>(stream: S): S {
  // A failed write is reported to its writer; without a listener the stream would end the process besides.
  if (!opened.has(stream)) stream.on("error", () => {});
  opened.add(stream);
  return stream;
}

/** Waits until all that was written has been handed to the system. */
export async function flushOutput(): Promise<void> {
  await Promise.allSettled([...opened].map((stream) => writeOut(stream, "")));
}

/** Writes and waits until the bytes are handed to the system. Throws {@link OutputClosed} when the reader has gone. */
export function writeOut(stream: Writable, bytes: Uint8Array | string): Promise<void> {
  return new Promise((resolve, reject) => {
    stream.write(bytes, (error) => {
      if (error === null || error === undefined) resolve();
      else reject((error as NodeJS.ErrnoException).code === "EPIPE" ? new OutputClosed() : error);
    });
  });
}

/** Prints a line on standard output. */
export function printLine(line: string): Promise<void> {
  return writeOut(standardOutput(), `${line}\n`);
}

/**
 * Prints a line about our own doing on standard error; what it quotes may be a guest's words. Output that nobody reads is no
 * reason to stop.
 */
export function note(line: string): void {
  standardError().write(`vmapp: ${line.replace(/[^\n\t]+/g, visible)}\n`);
}

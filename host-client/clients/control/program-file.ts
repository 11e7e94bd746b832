import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { stat } from "node:fs/promises";

/** The program that a host would install in a guest. */
export interface ProgramFile {
  readonly path: string;
  /** bytes */
  readonly size: number;
  /** SHA-256, lower-case hex */
  readonly hash: string;
}

/** Reads and hashes the file anew whenever it has changed, so that a replaced program is noticed at the next connect. */
export class ProgramWatch {
  #known: { readonly stamp: string; readonly program: ProgramFile } | undefined;

  constructor(readonly path: string) {}

  /** Undefined while there is no such file: then no update is offered. */
  async current(): Promise<ProgramFile | undefined> {
    const stats = await stat(this.path).catch(() => undefined);
    if (stats === undefined || !stats.isFile()) return undefined;
    const stamp = `${stats.dev} ${stats.ino} ${stats.size} ${stats.mtimeMs}`;
    if (this.#known?.stamp === stamp) return this.#known.program;
    const hash = createHash("sha256");
    for await (const chunk of createReadStream(this.path, { highWaterMark: 1024 * 1024 })) hash.update(chunk as Buffer);
    const program = { path: this.path, size: stats.size, hash: hash.digest("hex") };
    this.#known = { stamp, program };
    return program;
  }
}

import { closeSync, openSync, readFileSync, renameSync, writeSync } from "node:fs";
import type { Readable } from "node:stream";

/** A log that reaches this size moves to `console.log.1`, in the place of the one before. */
const rotateAtBytes = 8 * 1024 * 1024;
/** What is kept in memory to quote from. */
const tailBytes = 16 * 1024;
const panicMarker = "Kernel panic - not syncing";
/** The kernel's own: at the start of a line or behind its timestamp. A program may print the words, too, behind its name. */
const kernelPanic = new RegExp(`(?:^|\\n|\\[ *\\d+\\.\\d+\\](?:\\[ *[CT]\\d+\\])? )${panicMarker}`, "g");
/** most of what stands before the marker in {@link kernelPanic} */
const panicPrefixBytes = 64;
const maxPanicLineCharacters = 500;
/** what the agent logs once every service listens */
const agentReady = /^vmapp-agent: [0-9.]+ info ready\r?$/;
const maxReadyLineCharacters = 200;

/** Removes terminal escape sequences and control characters; lines end with `\n`. */
export function stripTerminalEscapes(text: string): string {
  return text
    .replace(/\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[P^_X][^\x1b]*\x1b\\|\x1b[ -/]*[0-~]/g, "")
    .replace(/[\x00-\x08\x0b-\x1f\x7f]/g, "");
}

/** The last `count` lines that are not blank, stripped. */
export function lastLines(text: string, count: number): string[] {
  return stripTerminalEscapes(text)
    .split("\n")
    .filter((line) => line.trim() !== "")
    .slice(-count);
}

/** The end of a console log on disk, for quoting in an error; empty where there is none. */
export function readConsoleTail(path: string, lines = 20): string[] {
  try {
    return lastLines(readFileSync(path).subarray(-tailBytes).toString("utf8"), lines);
  } catch {
    return [];
  }
}

/** The message with the end of the console below it, or a remark that it is empty. */
export function quoteConsole(message: string, tail: readonly string[], vmName: string): string {
  if (tail.length === 0) return `${message}\nThe console of ${vmName} is empty.`;
  return `${message}\nThe console of ${vmName} ends with:\n${tail.map((line) => `  | ${line}`).join("\n")}`;
}

/** Takes a guest's serial console: to a bounded file, to a tail in memory, and through a watch for panics. */
export class ConsoleLog {
  private fd: number;
  private fileBytes = 0;
  private recent: Buffer = Buffer.alloc(0);
  /** from the marker of the first panic to what has come of its line so far */
  private panicText: string | undefined;
  private readonly panicHandlers = new Set<() => void>();
  private readonly readyHandlers = new Set<() => void>();
  /** the line that has not ended yet, as far as it is looked at */
  private openLine = "";
  private writeError: Error | undefined;

  constructor(
    readonly path: string,
    private readonly limitBytes = rotateAtBytes,
  ) {
    this.fd = openSync(path, "wx", 0o600);
  }

  /** Reads the console to its end. Resolves then; a console that fails is one that has ended. */
  consume(stream: Readable): Promise<void> {
    return new Promise((resolve) => {
      stream.on("data", (chunk: Buffer) => this.append(chunk));
      stream.once("error", () => resolve());
      stream.once("close", () => resolve());
      stream.once("end", () => resolve());
    });
  }

  append(chunk: Buffer): void {
    this.writeToFile(chunk);
    this.recent = Buffer.concat([this.recent, chunk]).subarray(-tailBytes - chunk.length);
    if (this.panicText === undefined) this.watchForPanic(chunk.length);
    else if (!isWholeLine(this.panicText)) this.panicText += chunk.toString("utf8");
    this.recent = this.recent.subarray(-tailBytes);
    this.watchForReady(chunk);
  }

  /** Calls the handler at the first panic; at once if that was seen already. Returns what undoes it. */
  onPanic(handler: () => void): () => void {
    this.panicHandlers.add(handler);
    if (this.panicText !== undefined) handler();
    return () => this.panicHandlers.delete(handler);
  }

  /** Calls the handler each time that an agent says that all its services listen. Returns what undoes it. */
  onReady(handler: () => void): () => void {
    this.readyHandlers.add(handler);
    return () => this.readyHandlers.delete(handler);
  }

  /** the line of the first panic, as far as it has come, when the guest's kernel panicked */
  get panic(): string | undefined {
    return this.panicText === undefined ? undefined : stripTerminalEscapes(this.panicText).split("\n")[0]?.trim();
  }

  tail(lines = 20): string[] {
    const tail = lastLines(this.recent.toString("utf8"), lines);
    return this.writeError === undefined ? tail : [...tail, `(console log not written: ${this.writeError.message})`];
  }

  close(): void {
    closeSync(this.fd);
  }

  private watchForPanic(newBytes: number): void {
    // The marker, or what stands before it, may have begun in an earlier chunk.
    const start = Math.max(0, this.recent.length - newBytes - panicMarker.length - panicPrefixBytes);
    if (this.recent.indexOf(panicMarker, start, "latin1") < 0) return;
    kernelPanic.lastIndex = start;
    if (!kernelPanic.test(this.recent.toString("latin1"))) return;
    this.panicText = this.recent.subarray(kernelPanic.lastIndex - panicMarker.length).toString("utf8");
    for (const handler of this.panicHandlers) handler();
  }

  private watchForReady(chunk: Buffer): void {
    const lines = (this.openLine + chunk.toString("latin1")).split("\n");
    this.openLine = lines.pop()?.slice(-maxReadyLineCharacters) ?? "";
    if (!lines.some((line) => agentReady.test(line))) return;
    for (const handler of this.readyHandlers) handler();
  }

  private writeToFile(chunk: Buffer): void {
    try {
      if (this.fileBytes + chunk.length > this.limitBytes && this.fileBytes > 0) this.rotate();
      for (let offset = 0; offset < chunk.length; ) offset += writeSync(this.fd, chunk, offset);
      this.fileBytes += chunk.length;
    } catch (error) {
      // A full disk must not end the VM; the tail says it.
      this.writeError = error as Error;
    }
  }

  private rotate(): void {
    renameSync(this.path, `${this.path}.1`);
    const next = openSync(this.path, "wx", 0o600);
    closeSync(this.fd);
    this.fd = next;
    this.fileBytes = 0;
  }
}

function isWholeLine(text: string): boolean {
  return text.includes("\n") || text.length > maxPanicLineCharacters;
}

import { constants } from "node:os";
import type { Readable } from "node:stream";
import type { ShellSession } from "./clients/shell/session.ts";

const defaultMaxOutputBytes = 64 * 1024 * 1024;

export interface ExecOptions {
  /** the command's input; empty when absent */
  stdin?: Uint8Array | string | Readable;
  /** merged over the session's environment */
  env?: Readonly<Record<string, string>>;
  /** working directory */
  cwd?: string;
  /** name, uid, or uid:gid */
  user?: string;
  /** the command is hung up when it runs longer, in milliseconds; no limit when absent */
  timeoutMs?: number;
  /** the same, at the caller's wish */
  signal?: AbortSignal;
  /** most that stdout and stderr may have together, in bytes; 64 MiB when absent */
  maxOutputBytes?: number;
}

export interface ExecResult {
  /** exit status; 128 + n when signal n killed the command; 127 when there is no such command */
  code: number;
  /** the signal that a status above 128 stands for, e.g. `SIGTERM`; a command that exits with it looks the same */
  signal: NodeJS.Signals | undefined;
  stdout: Buffer;
  stderr: Buffer;
}

/** - `timeout`: the command ran longer than allowed; - `too_much_output`: it wrote more than allowed */
export type ExecErrorCode = "timeout" | "too_much_output";

/** A command that was hung up before it ended. */
export class ExecError extends Error {
  override readonly name = "ExecError";

  constructor(
    readonly code: ExecErrorCode,
    message: string,
  ) {
    super(message);
  }
}

/**
 * Runs a session to its end and collects its output. Throws `ShellError` for one that ends without a status,
 * {@link ExecError}, or the signal's reason; the command has been hung up then.
 */
export async function collect(session: ShellSession, title: string, options: ExecOptions): Promise<ExecResult> {
  let giveUp: (reason: unknown) => void = () => {};
  const givenUp = new Promise<never>((_, reject) => {
    giveUp = (reason) => {
      session.disconnect();
      reject(reason);
    };
  });
  givenUp.catch(() => {});
  const { timeoutMs, signal, maxOutputBytes = defaultMaxOutputBytes } = options;
  const onTimeout = () => giveUp(new ExecError("timeout", `${title} ran longer than ${Number(timeoutMs) / 1000} s`));
  const timer = timeoutMs === undefined ? undefined : setTimeout(onTimeout, timeoutMs);
  const onAbort = () => giveUp(signal?.reason);
  signal?.addEventListener("abort", onAbort, { once: true });
  if (signal?.aborted) onAbort();

  let bytes = 0;
  const take = async (stream: Readable): Promise<Buffer> => {
    const chunks: Buffer[] = [];
    for await (const chunk of stream as AsyncIterable<Buffer>) {
      bytes += chunk.length;
      if (bytes > maxOutputBytes) {
        giveUp(new ExecError("too_much_output", `${title} wrote more than ${maxOutputBytes} bytes`));
        break;
      }
      chunks.push(chunk);
    }
    return Buffer.concat(chunks);
  };
  try {
    feed(session, options.stdin);
    const work = Promise.all([session.exit, take(session.stdout), take(session.stderr)]);
    const [{ code }, stdout, stderr] = await Promise.race([work, givenUp]);
    return { code, signal: signalOf(code), stdout, stderr };
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener("abort", onAbort);
  }
}

function feed(session: ShellSession, stdin: ExecOptions["stdin"]): void {
  // The command may end before it has read everything: that is its right.
  session.stdin.on("error", () => {});
  if (stdin === undefined || typeof stdin === "string" || stdin instanceof Uint8Array) session.stdin.end(stdin);
  else stdin.pipe(session.stdin);
}

const signalNames = new Map(Object.entries(constants.signals).map(([name, number]) => [number, name]));

function signalOf(code: number): NodeJS.Signals | undefined {
  return code > 128 ? (signalNames.get(code - 128) as NodeJS.Signals | undefined) : undefined;
}

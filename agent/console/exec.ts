/** One command of an `exec`: started in a session of its own, its output kept up to the cap, killed as a group. */
import { statSync } from "node:fs";
import type { ExecResult } from "#protocol/console/calls.ts";
import { ConsoleError } from "#protocol/console/errors.ts";
import { maxStreamBytes } from "#protocol/console/limits.ts";
import { type ExitStatus, type PipedChild, spawnWithoutInput } from "#sys/spawn.ts";
import { lookUp } from "../shell/lookup.ts";
import { withNeutralOomScore } from "../shell/oom-score.ts";
import { type Captured, captureOutput } from "./capture.ts";
import { CommandGroup } from "./command-group.ts";
import { errorText } from "./file-error.ts";

export interface CommandRequest {
  /** at least one word */
  readonly argv: readonly string[];
  readonly cwd: string;
  /** the whole environment */
  readonly env: Readonly<Record<string, string>>;
  /** milliseconds until the kill, from the start of the command */
  readonly timeoutMs: number | undefined;
}

export interface RunningCommand {
  /** Rejects with ConsoleError `timedOut`. Ends when both streams have ended and the command has been waited for. */
  readonly result: Promise<ExecResult>;
  /** Kills the whole group; the result is then what was written until now and how the command ended. */
  kill(): void;
}

/** after a kill, how long a process that left the group may hold the output open, in milliseconds */
const stragglerMs = 500;

/** Throws ConsoleError `notExecutable`. */
export function startCommand(request: CommandRequest): RunningCommand {
  const child = spawn(request);
  const group = new CommandGroup(child);
  const closeOutput = () => {
    child.stdout.close();
    child.stderr.close();
  };
  const ended = Promise.all([
    captureOutput(child.stdout, maxStreamBytes),
    captureOutput(child.stderr, maxStreamBytes),
    child.exited,
  ]).finally(closeOutput);
  return {
    result: withTimeout(request.timeoutMs, ended.then(execResult), () => {
      group.kill();
      closeOutput();
    }),
    kill: () => {
      group.kill();
      setTimeout(closeOutput, stragglerMs).unref();
    },
  };
}

function spawn(request: CommandRequest): Omit<PipedChild, "stdin"> {
  const file = executable(request);
  try {
    return withNeutralOomScore(() => spawnWithoutInput({ ...request, file }));
  } catch (error) {
    // What only the attempt shows: too many words, a file that is being written, an interpreter that is no program.
    throw notExecutable(request, errorText(error), 126, error);
  }
}

function notExecutable(
  { argv: [name = ""] }: CommandRequest,
  reason: string,
  shellCode: 126 | 127,
  cause?: unknown,
): ConsoleError {
  return new ConsoleError("notExecutable", `${name}: ${reason} (a shell would report ${shellCode})`, { cause });
}

/** Throws ConsoleError `notExecutable`, with the program as it was asked for and what stands in its way. */
function executable(request: CommandRequest): string {
  const { argv, cwd, env } = request;
  const [name = ""] = argv;
  const refuse = (reason: string, shellCode: 126 | 127) => notExecutable(request, reason, shellCode);
  if (argv.some((word) => word.includes("\0"))) throw refuse("a NUL byte in an argument", 126);
  if (!isDirectory(cwd)) throw refuse(`the directory ${cwd}, where the session stands, is gone`, 126);
  const found = lookUp({ name, searchPath: env.PATH ?? "", cwd });
  if (found.kind === "missing") throw refuse("no such program", 127);
  if (found.kind === "refused") throw refuse(found.reason, 126);
  return found.path;
}

function isDirectory(path: string): boolean {
  try {
    return statSync(path).isDirectory();
  } catch {
    return false;
  }
}

function execResult([stdout, stderr, status]: [Captured, Captured, ExitStatus]): ExecResult {
  return {
    code: exitCode(status),
    stdout: stdout.bytes,
    stderr: stderr.bytes,
    truncated: stdout.cut || stderr.cut,
  };
}

function exitCode({ code, signal }: ExitStatus): number {
  if (signal !== null) return 128 + signal;
  if (code !== null) return code;
  throw new ConsoleError("internal", "the command ended and its status is not known");
}

/** a timer of Node's counts to this many milliseconds; a longer one would fire at once */
const maxTimerMs = 2 ** 31 - 1;

async function withTimeout<T>(timeoutMs: number | undefined, work: Promise<T>, onExpiry: () => void): Promise<T> {
  if (timeoutMs === undefined) return work;
  let timer: NodeJS.Timeout | undefined;
  const expired = new Promise<never>((_, reject) => {
    const expire = () => {
      onExpiry();
      reject(new ConsoleError("timedOut", `killed after ${timeoutMs}ms`));
    };
    const wait = (remaining: number) => {
      if (remaining > maxTimerMs) timer = setTimeout(() => wait(remaining - maxTimerMs), maxTimerMs);
      else timer = setTimeout(expire, remaining);
    };
    wait(timeoutMs);
  });
  // Whichever comes second has nobody to hear it.
  work.catch(() => {});
  try {
    return await Promise.race([work, expired]);
  } finally {
    clearTimeout(timer);
  }
}

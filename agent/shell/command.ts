/** From a start frame to a running command: environment, directory, user, look-up, and the fork itself. */
import { statSync, writeFileSync } from "node:fs";
import type { ResolvedStart } from "#protocol/shell/start.ts";
import { sendSignal } from "#sys/process.ts";
import { openPty } from "#sys/pty.ts";
import { type ExitStatus, spawnPiped } from "#sys/spawn.ts";
import type { FdReader, FdWriter } from "#sys/stream-fd.ts";
import { type Account, findAccount } from "./account.ts";
import { lookUp } from "./lookup.ts";

/** A running command, the same for pipes and pty. */
export interface Command {
  readonly pid: number;
  readonly tty: boolean;
  readonly stdin: FdWriter;
  readonly stdout: FdReader;
  /** undefined on a pty, where all output is stdout */
  readonly stderr: FdReader | undefined;
  readonly exited: Promise<ExitStatus>;
  resize(size: { readonly rows: number; readonly cols: number }): void;
  /** Signals the whole group. Returns false when nothing of it is left. */
  signalGroup(signal: number): boolean;
}

/** Why no command runs, as the contract has it told to the client. */
export type Refusal =
  /** stderr `<argv[0]>: command not found`, then exit 127 */
  { readonly kind: "notFound"; readonly message: string } | { readonly kind: "error"; readonly message: string };

const baseEnvironment = {
  PATH: "/usr/sbin:/usr/bin:/sbin:/bin",
  HOME: "/root",
  USER: "root",
  SHELL: "/bin/sh",
} as const;

/** longest argument or environment variable that Linux takes (MAX_ARG_STRLEN), in bytes with its terminator */
const maxWordBytes = 128 * 1024;

/** Starts the command of a start frame, or says why it cannot run ("Sessions that do not run"). */
export function startCommand(start: ResolvedStart): Command | Refusal {
  const name = start.argv[0] ?? "";
  const cannot = (reason: string): Refusal => ({ kind: "error", message: `cannot run ${name}: ${reason}` });
  if (start.argv.some((argument) => argument.includes("\0"))) return cannot("a NUL byte in an argument");
  if (Object.entries(start.env).some(([key, value]) => key === "" || /[=\0]/.test(key) || value.includes("\0")))
    return cannot("an environment variable with an impossible name or a NUL byte");
  const words = [...start.argv, ...Object.entries(start.env).map(([key, value]) => `${key}=${value}`)];
  if (words.some((word) => Buffer.byteLength(word) >= maxWordBytes)) return cannot("argument list too long");

  let account: Account | undefined;
  try {
    account = start.user === undefined ? undefined : findAccount(start.user);
  } catch (error) {
    return cannot(reasonOf(error));
  }
  const env: Record<string, string> = {
    ...baseEnvironment,
    ...(account === undefined ? {} : { HOME: account.home, USER: account.name, SHELL: account.shell }),
    TERM: start.term,
    ...start.env,
  };
  const home = account?.home ?? baseEnvironment.HOME;
  const cwd = start.cwd ?? (isDirectory(home) ? home : "/");
  if (!isDirectory(cwd)) return cannot(`${cwd} is not a directory`);

  const found = lookUp({ name, searchPath: env.PATH ?? "", cwd });
  if (found.kind === "missing") return { kind: "notFound", message: `${name}: command not found\n` };
  if (found.kind === "refused") return cannot(found.reason);
  try {
    const command = start.tty
      ? onPty({ start, env, cwd, account })
      : onPipes({ start, file: found.path, env, cwd, account });
    allowOomKill(command.pid);
    return command;
  } catch (error) {
    return cannot(reasonOf(error));
  }
}

interface Placement {
  readonly start: ResolvedStart;
  readonly env: Readonly<Record<string, string>>;
  readonly cwd: string;
  readonly account: Account | undefined;
}

function onPty({ start, env, cwd, account }: Placement): Command {
  const child = openPty({
    // The addon's execvp looks the name up again in the same PATH, and argv[0] stays as the client wrote it.
    file: start.argv[0] ?? "",
    argv: start.argv,
    env,
    cwd,
    rows: start.rows,
    cols: start.cols,
    credentials: account,
  });
  return {
    pid: child.pid,
    tty: true,
    stdin: child.input,
    stdout: child.output,
    stderr: undefined,
    exited: child.exited,
    resize: child.resize,
    signalGroup: (signal) => sendSignal(-child.pid, signal),
  };
}

function onPipes({ start, file, env, cwd, account }: Placement & { readonly file: string }): Command {
  const child = spawnPiped({
    file,
    argv: start.argv,
    env,
    cwd,
    credentials: account,
  });
  return {
    pid: child.pid,
    tty: false,
    stdin: child.stdin,
    stdout: child.stdout,
    stderr: child.stderr,
    exited: child.exited,
    resize: () => {},
    signalGroup: (signal) => sendSignal(-child.pid, signal),
  };
}

/** The agent protects itself from the OOM killer; what it starts must not inherit that. */
function allowOomKill(pid: number): void {
  try {
    writeFileSync(`/proc/${pid}/oom_score_adj`, "0");
  } catch {
    // Already gone, or not privileged, in which case there was nothing to inherit.
  }
}

function isDirectory(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false;
}

function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

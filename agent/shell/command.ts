/** From a start frame to a running command: environment, directory, user, look-up, and the fork itself. */
import { statSync } from "node:fs";
import type { ResolvedStart } from "#protocol/shell/start.ts";
import { mayExecute, withFileCredentials } from "#sys/credentials.ts";
import { sendSignal } from "#sys/process.ts";
import { openPty } from "#sys/pty.ts";
import { type ExitStatus, spawnPiped } from "#sys/spawn.ts";
import type { FdReader, FdWriter } from "#sys/stream-fd.ts";
import { type Account, findAccount } from "./account.ts";
import { lookUp } from "./lookup.ts";
import { withNeutralOomScore } from "./oom-score.ts";
import { wordsRefusal } from "./words.ts";

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

/** Starts the command of a start frame, or says why it cannot run ("Sessions that do not run"). Never throws. */
export function startCommand(start: ResolvedStart): Command | Refusal {
  const name = start.argv[0] ?? "";
  const cannot = (reason: string): Refusal => ({ kind: "error", message: `cannot run ${name}: ${reason}` });
  if (start.cwd?.includes("\0")) return cannot("a NUL byte in the directory");
  try {
    const account = start.user === undefined ? undefined : findAccount(start.user);
    const env: Record<string, string> = {
      ...baseEnvironment,
      ...(account === undefined ? {} : { HOME: account.home, USER: account.name, SHELL: account.shell }),
      TERM: start.term,
      ...start.env,
    };
    const impossible = wordsRefusal(start.argv, env);
    if (impossible !== undefined) return cannot(impossible);
    const home = account?.home ?? baseEnvironment.HOME;
    // As the command's user, who may see less than the agent.
    const { cwd, refused, found } = withFileCredentials(account, () => {
      const refusal = directoryRefusal(start.cwd ?? home);
      const cwd = start.cwd ?? (refusal === undefined ? home : "/");
      const refused = start.cwd === undefined ? undefined : refusal;
      return { cwd, refused, found: lookUp({ name, searchPath: env.PATH ?? "", cwd }) };
    });
    if (refused !== undefined) return cannot(refused);
    if (found.kind === "missing") return { kind: "notFound", message: `${name}: command not found\n` };
    if (found.kind === "refused") return cannot(found.reason);
    return withNeutralOomScore(() =>
      start.tty ? onPty({ start, env, cwd, account }) : onPipes({ start, file: found.path, env, cwd, account }),
    );
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
    signalGroup: child.signalGroup,
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

/** Why this identity cannot start in a directory, or undefined. */
function directoryRefusal(path: string): string | undefined {
  try {
    if (statSync(path, { throwIfNoEntry: false })?.isDirectory() !== true) return `${path} is not a directory`;
  } catch (error) {
    // Unlike a missing entry: one that this identity cannot reach.
    return reasonOf(error);
  }
  return mayExecute(path) ? undefined : `the directory ${path} may not be entered`;
}

function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

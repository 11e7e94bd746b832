/**
 * A child on three real pipes, in a session of its own. Bun's own "pipe" gives the child socket pairs, on which
 * `echo > /dev/stdout` fails (ENXIO), so the pipes are made here and handed over as descriptors.
 */

import { constants } from "node:os";
import { type Credentials, withCredentials, withFileCredentials } from "./credentials.ts";
import { closeFd, createPipe, type Pipe, tryPipeSize } from "./fd.ts";
import { FdReader, FdWriter } from "./stream-fd.ts";

const outputPipeBytes = 256 * 1024;
/** Bun refuses uids and gids beyond it */
const maxBunId = 0x7fffffff;

/** How a child ended: `code` when it exited, `signal` (a number) when one killed it; both null when nobody knows. */
export interface ExitStatus {
  readonly code: number | null;
  readonly signal: number | null;
}

export interface SpawnRequest {
  /** path of the executable; no look-up happens */
  readonly file: string;
  /** arguments including argv[0] as the child sees it; at least one */
  readonly argv: readonly string[];
  /** the whole environment of the child */
  readonly env: Readonly<Record<string, string>>;
  readonly cwd: string;
  /** absent: as this process */
  readonly credentials?: Credentials | undefined;
}

export interface PipedChild {
  readonly pid: number;
  readonly stdin: FdWriter;
  readonly stdout: FdReader;
  readonly stderr: FdReader;
  /** Resolves when the child has been waited for; its output may still be unread. Never rejects. */
  readonly exited: Promise<ExitStatus>;
}

/**
 * Starts the child (new session, so that `kill(-pid)` reaches its group). Throws when it cannot be started: a SysError for
 * the pipes, otherwise Bun's error with a `code` such as ENOENT, EACCES or ENOEXEC.
 */
export function spawnPiped(request: SpawnRequest): PipedChild {
  const stdin = pipeOf(request.credentials);
  try {
    const child = start(request, stdin.readFd);
    closeFd(stdin.readFd);
    return { ...child, stdin: new FdWriter(stdin.writeFd) };
  } catch (error) {
    closeFd(stdin.readFd);
    closeFd(stdin.writeFd);
    throw error;
  }
}

/**
 * As {@link spawnPiped}, with /dev/null as the child's input. Programs tell that from an empty pipe: a search tool, for
 * one, searches a pipe instead of the directory it stands in.
 */
export function spawnWithoutInput(request: SpawnRequest): Omit<PipedChild, "stdin"> {
  return start(request, "ignore");
}

function start(
  { file, argv, env, cwd, credentials }: SpawnRequest,
  stdin: number | "ignore",
): Omit<PipedChild, "stdin"> {
  const open: number[] = [];
  const pipe = () => {
    const pair = pipeOf(credentials);
    open.push(pair.readFd, pair.writeFd);
    return pair;
  };
  try {
    const [stdout, stderr] = [pipe(), pipe()];
    tryPipeSize(stdout.readFd, outputPipeBytes);
    const spawn = (identity: { uid?: number; gid?: number }) =>
      Bun.spawn([file, ...argv.slice(1)], {
        argv0: argv[0] ?? file,
        env: { ...env },
        cwd,
        detached: true,
        stdio: [stdin, stdout.writeFd, stderr.writeFd],
        ...identity,
      });
    const child = takesOwnIdentity(credentials)
      ? spawn({ uid: credentials.uid, gid: credentials.gid })
      : withCredentials(credentials, () => spawn({}));
    for (const fd of [stdout.writeFd, stderr.writeFd]) closeFd(fd);
    return {
      pid: child.pid,
      stdout: new FdReader(stdout.readFd),
      stderr: new FdReader(stderr.readFd),
      exited: exitStatus(child),
    };
  } catch (error) {
    for (const fd of open) closeFd(fd);
    throw error;
  }
}

/** Opening /dev/stdout again, as scripts do, is up to the owner of the pipe. */
function pipeOf(owner: Credentials | undefined): Pipe {
  return withFileCredentials(owner, createPipe);
}

/**
 * Whether the child may change its identity by itself, for which Bun leaves it no supplementary groups. While this process
 * has it, any process of that user can kill this one: so only where there are such groups.
 */
function takesOwnIdentity(credentials: Credentials | undefined): credentials is Credentials {
  if (credentials === undefined) return false;
  const { uid, gid, groups } = credentials;
  return groups.every((group) => group === gid) && Math.max(uid, gid) <= maxBunId;
}

async function exitStatus(child: Bun.Subprocess): Promise<ExitStatus> {
  try {
    await child.exited;
  } catch {
    // Only the status matters, and it is read below.
  }
  const signal = signalNumber(child.signalCode);
  return { code: signal === null ? child.exitCode : null, signal };
}

function signalNumber(name: NodeJS.Signals | number | null): number | null {
  if (name === null || typeof name === "number") return name;
  return constants.signals[name] ?? null;
}

import { spawn } from "node:child_process";
import { closeSync, existsSync, ftruncateSync, openSync, rmSync, statSync } from "node:fs";
import { VmError } from "./error.ts";
import { programs, requireProgram } from "./find-program.ts";

const minDiskMib = 16;
const maxDiskMib = 16 * 1024 * 1024;
const formatTimeoutMs = 60_000;

/** What a VM keeps its changes on. Without a path the disk lies in the state directory and goes with it. */
export interface SessionDiskOptions {
  /** an ext4 image; made when it does not exist */
  path?: string;
  /** size of a disk to be made, in MiB; the file is sparse */
  sizeMib?: number;
}

/** The path of a session disk that is ready for use. An existing one is taken as it is. Throws {@link VmError}. */
export async function prepareSessionDisk(options: SessionDiskOptions, defaultPath: string): Promise<string> {
  const path = options.path ?? defaultPath;
  if (existsSync(path)) {
    if (!statSync(path).isFile()) throw new VmError("bad_option", `the session disk ${path} is not a file`);
    return path;
  }
  const { sizeMib } = options;
  if (sizeMib === undefined) {
    throw new VmError("bad_option", `the session disk ${path} does not exist; give a size to have it made`);
  }
  if (!Number.isInteger(sizeMib) || sizeMib < minDiskMib || sizeMib > maxDiskMib) {
    throw new VmError("bad_option", `a session disk has ${minDiskMib} to ${maxDiskMib} MiB, not ${sizeMib}`);
  }
  await formatDisk(path, sizeMib);
  return path;
}

async function formatDisk(path: string, sizeMib: number): Promise<void> {
  const mkfs = requireProgram(programs.mkfsExt4);
  let fd: number;
  try {
    fd = openSync(path, "wx", 0o600);
  } catch (cause) {
    throw new VmError("bad_option", `cannot make the session disk ${path}: ${(cause as Error).message}`, cause);
  }
  try {
    ftruncateSync(fd, sizeMib * 1024 * 1024);
  } finally {
    closeSync(fd);
  }
  const problem = await runQuietly(mkfs, ["-q", "-F", "-L", "vmapp-session", path]);
  if (problem !== undefined) {
    rmSync(path, { force: true });
    throw new VmError("bad_option", `cannot format the session disk ${path}: ${problem}`);
  }
}

/** Runs a program to its end; what it wrote to standard error, or how it ended, when it failed. */
function runQuietly(program: string, args: readonly string[]): Promise<string | undefined> {
  return new Promise((resolve) => {
    const child = spawn(program, args, { stdio: ["ignore", "ignore", "pipe"], timeout: formatTimeoutMs });
    let messages = "";
    child.stderr?.setEncoding("utf8").on("data", (text: string) => {
      messages = (messages + text).slice(-4096);
    });
    child.once("error", (error) => resolve(error.message));
    child.once("close", (code, signal) => {
      resolve(code === 0 ? undefined : messages.trim() || `ended with ${signal ?? `status ${code}`}`);
    });
  });
}

import { lstatSync, mkdirSync } from "node:fs";
import { isAbsolute, join } from "node:path";
import { VmError } from "./error.ts";

/** Where this user's VMs live: `$XDG_RUNTIME_DIR/vmapp`, or `/tmp/vmapp-<uid>` without the variable. */
export function stateRootPath(env: NodeJS.ProcessEnv, uid: number): string {
  const runtimeDirectory = env.XDG_RUNTIME_DIR;
  if (runtimeDirectory !== undefined && isAbsolute(runtimeDirectory)) return join(runtimeDirectory, "vmapp");
  return `/tmp/vmapp-${uid}`;
}

/** Refuses a directory that is a link, is someone else's, or that others can enter. */
export function requirePrivateDirectory(path: string, uid: number): void {
  const refuse = (reason: string, mend: string) =>
    new VmError("state_directory", `will not keep VMs in ${path}: ${reason}. ${mend}`);
  const stat = lstatSync(path, { throwIfNoEntry: false });
  if (stat === undefined) throw refuse("it does not exist", "Create it with mode 0700, or unset XDG_RUNTIME_DIR");
  if (stat.isSymbolicLink()) throw refuse("it is a symbolic link", "Point XDG_RUNTIME_DIR at a real directory");
  if (!stat.isDirectory()) throw refuse("it is not a directory", "Point XDG_RUNTIME_DIR at a directory");
  if (stat.uid !== uid) {
    throw refuse(`it belongs to uid ${stat.uid}, not to ${uid}`, "Point XDG_RUNTIME_DIR at a directory of your own");
  }
  if ((stat.mode & 0o077) !== 0) {
    const mode = (stat.mode & 0o777).toString(8).padStart(4, "0");
    throw refuse(`its mode is ${mode}, so others can enter it`, `Run: chmod 0700 ${path}`);
  }
}

/** Makes the state root if it is not there, and returns its path. Throws {@link VmError} `state_directory`. */
export function openStateRoot(env: NodeJS.ProcessEnv = process.env, uid: number = ownUid()): string {
  const root = stateRootPath(env, uid);
  const runtimeDirectory = env.XDG_RUNTIME_DIR;
  if (runtimeDirectory !== undefined && root.startsWith(`${join(runtimeDirectory)}/`)) {
    requirePrivateDirectory(runtimeDirectory, uid);
  }
  try {
    mkdirSync(root, { mode: 0o700 });
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code !== "EEXIST") {
      throw new VmError("state_directory", `cannot make the directory ${root}: ${(cause as Error).message}`, cause);
    }
  }
  requirePrivateDirectory(root, uid);
  return root;
}

function ownUid(): number {
  return process.getuid?.() ?? 0;
}

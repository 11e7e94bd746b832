/** Finds and checks a command before anything is forked, so that every refusal can be told apart ("Sessions that do not run"). */
import { closeSync, constants, openSync, readSync, statSync } from "node:fs";
import { isAbsolute, resolve } from "node:path";
import { mayExecute } from "#sys/credentials.ts";
import { elfRefusal } from "./elf.ts";
import { interpreterRefusal } from "./interpreter.ts";

export type Lookup =
  /** path of a file that can be executed */
  | { readonly kind: "found"; readonly path: string }
  | { readonly kind: "missing" }
  /** it exists and cannot be run; `reason` reads like strerror */
  | { readonly kind: "refused"; readonly reason: string };

/**
 * Looks `name` up, as the user whose identity this thread has: without a slash in `searchPath` (the first regular file with an x bit), with one from `cwd`.
 */
export function lookUp({ name, searchPath, cwd }: { name: string; searchPath: string; cwd: string }): Lookup {
  if (name === "") return { kind: "missing" };
  if (name.includes("\0")) return { kind: "refused", reason: "a NUL byte in the command" };
  if (name.includes("/")) return inspect(isAbsolute(name) ? name : resolve(cwd, name));
  for (const directory of searchPath.split(":")) {
    // An empty entry of PATH means the working directory.
    const path = resolve(cwd, directory, name);
    if (isExecutableFile(path)) return inspectFormat(path);
  }
  return { kind: "missing" };
}

/** root may execute any file with one x bit, and execve asks for just that. */
function isExecutableFile(path: string): boolean {
  try {
    return mayExecute(path) && statSync(path).isFile();
  } catch {
    return false;
  }
}

function inspect(path: string): Lookup {
  let stat: ReturnType<typeof statSync>;
  try {
    stat = statSync(path);
  } catch (error) {
    const code = error instanceof Error && "code" in error ? error.code : undefined;
    return code === "ENOENT" || code === "ENOTDIR" ? { kind: "missing" } : { kind: "refused", reason: String(code) };
  }
  if (stat.isDirectory()) return { kind: "refused", reason: "is a directory" };
  if (!isExecutableFile(path)) return { kind: "refused", reason: "permission denied" };
  return inspectFormat(path);
}

const elfMagic = Buffer.from([0x7f, 0x45, 0x4c, 0x46]);

/** Executable format: ELF that this machine runs, or a script whose interpreter exists. */
function inspectFormat(path: string): Lookup {
  let fd: number;
  try {
    fd = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  } catch {
    // Executable but not readable: legal, and only execve can tell.
    return { kind: "found", path };
  }
  try {
    const head = Buffer.alloc(256);
    const bytes = readSync(fd, head, 0, head.length, 0);
    const reason = head.subarray(0, 4).equals(elfMagic) ? elfRefusal(fd) : scriptRefusal(head.subarray(0, bytes));
    return reason === undefined ? { kind: "found", path } : { kind: "refused", reason };
  } finally {
    closeSync(fd);
  }
}

function scriptRefusal(head: Buffer): string | undefined {
  if (head[0] !== 0x23 || head[1] !== 0x21) return "exec format error";
  const line = head.subarray(2).toString("latin1").split("\n", 1)[0] ?? "";
  const interpreter = line.trim().split(/[ \t]/, 1)[0] ?? "";
  return interpreterRefusal(interpreter);
}

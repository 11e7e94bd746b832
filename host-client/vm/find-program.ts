import { accessSync, constants, statSync } from "node:fs";
import { delimiter, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { VmError } from "./error.ts";

/** A program this host must have, and how to get it. */
export interface Program {
  name: string;
  /** what it is for, in a few words */
  purpose: string;
  /** the command that installs it */
  mend: string;
  /** environment variable that names the file instead of the search */
  variable?: string;
}

export const programs = {
  qemu: {
    name: "qemu-system-x86_64",
    purpose: "runs the VMs",
    mend: "apt-get install --no-install-recommends qemu-system-x86",
  },
  vhostDeviceVsock: {
    name: "vhost-device-vsock",
    purpose: "gives VMs their vsock where the kernel's vhost-vsock does not open",
    mend: "make setup",
    variable: "VMAPP_VHOST_DEVICE_VSOCK",
  },
  setpriv: {
    name: "setpriv",
    purpose: "makes QEMU end with its owner",
    mend: "apt-get install util-linux",
  },
  mkfsExt4: {
    name: "mkfs.ext4",
    purpose: "formats session disks",
    mend: "apt-get install e2fsprogs",
  },
} as const satisfies Record<string, Program>;

/** Debian keeps mkfs and friends where a user's PATH does not reach. */
const extraDirectories = ["/usr/sbin", "/sbin"];

function isExecutableFile(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return statSync(path).isFile();
  } catch {
    return false;
  }
}

/** True inside an executable that `bun build --compile` made: its modules live in a virtual file system. */
export function isCompiled(): boolean {
  return process.argv[1]?.startsWith("/$bunfs/") ?? false;
}

/** The checkout that this source file is in; `undefined` in a compiled executable and in a bundle. */
export function checkoutDirectory(): string | undefined {
  if (isCompiled() || !import.meta.url.endsWith("/host-client/vm/find-program.ts")) return undefined;
  return fileURLToPath(new URL("../..", import.meta.url));
}

/** Where programs that come with vmapp may lie: `tools/` beside the executable, `dist/tools/` in a checkout. */
function ownDirectories(): string[] {
  const directories = [join(dirname(process.execPath), "tools")];
  const checkout = checkoutDirectory();
  if (checkout !== undefined) directories.push(join(checkout, "dist", "tools"));
  return directories;
}

/** Full path of the program, or `undefined`. Looks at its variable, then the PATH, then beside ourselves. */
export function findProgram(program: Program, env: NodeJS.ProcessEnv = process.env): string | undefined {
  const named = program.variable === undefined ? undefined : env[program.variable];
  if (named !== undefined && named !== "") return isExecutableFile(named) ? named : undefined;
  const searched = (env.PATH ?? "").split(delimiter).filter((directory) => directory !== "");
  for (const directory of [...searched, ...extraDirectories, ...ownDirectories()]) {
    const path = join(directory, program.name);
    if (isExecutableFile(path)) return path;
  }
  return undefined;
}

/** As {@link findProgram}; throws {@link VmError} `missing_tool` with the command that installs it. */
export function requireProgram(program: Program, env: NodeJS.ProcessEnv = process.env): string {
  const path = findProgram(program, env);
  if (path !== undefined) return path;
  const named = program.variable === undefined ? undefined : env[program.variable];
  const tried = named
    ? `$${program.variable} names ${named}, which is not an executable file`
    : "it is not on the PATH";
  throw new VmError(
    "missing_tool",
    `${program.name} is missing: it ${program.purpose}, and ${tried}. Install it: ${program.mend}`,
  );
}

/**
 * A console server that finds what it finds in a guest: a root overlay whose upper directory is at /run/vmapp/session/upper.
 * It runs in a mount namespace of its own over this machine's root, so nothing it does is seen outside.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const program = join(import.meta.dirname, "../../init/main.ts");

/** Mounts what stage 0 mounts, puts a layer in place if one is given, and becomes the console server. */
const script = `
set -e
cd "$1"
mkdir session root
mount -t tmpfs tmpfs session
mkdir session/upper session/work
if [ -n "$2" ]; then "$3" "$4" restore "$2" session/upper >&2; fi
mount -t overlay -o redirect_dir=off,metacopy=off,lowerdir=/,upperdir=session/upper,workdir=session/work overlay root
for directory in proc sys dev; do mount --rbind "/$directory" "root/$directory"; done
mount -t tmpfs tmpfs root/run
mount -t tmpfs tmpfs root/tmp
mkdir -p root/run/vmapp/session
mount --bind session root/run/vmapp/session
export BUN_RUNTIME_TRANSPILER_CACHE_PATH=0
exec chroot root "$3" "$4" console
`;

/** Why such a server cannot run here, or undefined when it can. */
export function guestRootObstacle(): string | undefined {
  const { exitCode, stderr } = Bun.spawnSync(["unshare", "--mount", "true"]);
  if (exitCode !== 0) return `a mount namespace is needed (root): ${stderr.toString().trim()}`;
  const overlay = Bun.spawnSync(["grep", "-qw", "overlay", "/proc/filesystems"]);
  if (overlay.exitCode !== 0) Bun.spawnSync(["modprobe", "overlay"]);
  const again = Bun.spawnSync(["grep", "-qw", "overlay", "/proc/filesystems"]);
  return again.exitCode === 0 ? undefined : "this kernel has no overlayfs";
}

export interface GuestRoot extends Disposable {
  /** what starts the server, on its standard input and output */
  readonly command: readonly string[];
}

/** @param layer path of a layer tar that the root starts with */
export function guestRoot(layer = ""): GuestRoot {
  const directory = mkdtempSync(join(tmpdir(), "vmapp-root-"));
  return {
    command: ["unshare", "--mount", "sh", "-c", script, "guest-root", directory, layer, process.execPath, program],
    [Symbol.dispose]: () => rmSync(directory, { recursive: true, force: true }),
  };
}

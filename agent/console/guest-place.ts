/**
 * A guest of its own, put together by stage 0 (design: "Boot"): trees are mounted by this process, and the session's writes
 * are the upper directory of the root overlay, which only root sees.
 */
import { existsSync } from "node:fs";
import { mkdir, readFile, realpath, rmdir, stat } from "node:fs/promises";
import { dirname } from "node:path";
import type { InitParams } from "#protocol/console/calls.ts";
import type { ByteChunks } from "#protocol/console/document-writer.ts";
import { ConsoleError } from "#protocol/console/errors.ts";
import { maxBlobBytes } from "#protocol/console/limits.ts";
import { formatMount, guestPlaceOf, type Mount, urlBody } from "#protocol/console/mount.ts";
import { bindDirectory, mountFilesystem, unmount } from "#sys/mount.ts";
import { errorText } from "./file-error.ts";
import { parseMountPoints } from "./mount-points.ts";
import { type Place, type PlacedTree, refuseMachineAndNetwork } from "./place.ts";

/** where stage 0 leaves the overlay's upper directory */
const upperDirectory = "/run/vmapp/session/upper";

/** What boot writes into every guest, and this product's own files: not the session's work. */
const notTheSessions = ["/etc/resolv.conf", "/var/lib/vmapp"];

const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/** Whether this is such a guest. */
export function isGuest(): boolean {
  return existsSync(upperDirectory);
}

export const guestPlace: Place = {
  accept(params: InitParams): void {
    for (const mount of params.mounts) {
      if (mount.scheme === "file" || mount.scheme === "virtiofs") continue;
      throw new ConsoleError(
        "unsupportedMount",
        `this server mounts virtiofs://TAG and the guest's own file:// only: ${formatMount(mount)}`,
      );
    }
    if (params.image !== undefined) {
      throw new ConsoleError("unsupportedImage", "this guest runs already and its base image cannot be swapped");
    }
    refuseMachineAndNetwork(params);
  },
  home: () => "/",
  environment: () => ({ PATH: defaultPath }),
  placeTree,
  // The kernel refuses writes to what is mounted for reading.
  guardWrite: async () => {},
  snapshot,
  restore,
};

async function placeTree(mount: Mount): Promise<PlacedTree> {
  const failed = (reason: string, cause?: unknown) =>
    new ConsoleError("mountFailed", `${formatMount(mount)}: ${reason}`, { cause });
  const place = guestPlaceOf(mount);
  let target: string;
  let made: string | undefined;
  try {
    made = await mkdir(place, { recursive: true });
    // Links in the path are not part of a mount point's name, and may lead elsewhere when the tree is released.
    target = await realpath(place);
    if ((await mountPoints()).includes(target)) throw failed(`something is mounted at ${place} already`);
    if (mount.scheme === "file") await bindTree(mount, target);
    else mountTag(mount, target);
  } catch (error) {
    await removeDirectories(place, made);
    throw error instanceof ConsoleError ? error : failed(errorText(error), error);
  }
  return {
    async release() {
      try {
        // A command that is still there keeps the tree for itself; its name is free at once.
        unmount(target, { detach: true });
      } catch {
        // Unmounted by a command of the session.
      }
      await removeDirectories(place, made);
    },
  };
}

async function bindTree(mount: Mount, target: string): Promise<void> {
  const source = urlBody(mount);
  if (!(await stat(source)).isDirectory()) {
    throw new ConsoleError("mountFailed", `${formatMount(mount)}: ${source} is not a directory`);
  }
  bindDirectory({ source, target, readOnly: mount.readOnly });
}

function mountTag(mount: Mount, target: string): void {
  mountFilesystem({
    source: urlBody(mount),
    target,
    type: "virtiofs",
    flags: mount.readOnly ? ["rdonly", "nosuid", "nodev"] : ["nosuid", "nodev"],
    options: "",
  });
}

/** Removes the directories that were made for a mount, from the lowest up to `made`. */
async function removeDirectories(target: string, made: string | undefined): Promise<void> {
  if (made === undefined) return;
  try {
    for (let directory = target; ; directory = dirname(directory)) {
      await rmdir(directory);
      if (directory === made) return;
    }
  } catch {
    // The session has put something of its own there.
  }
}

async function mountPoints(): Promise<string[]> {
  return parseMountPoints(await readFile("/proc/self/mountinfo", "latin1"));
}

async function snapshot(mounts: readonly Mount[]): Promise<ByteChunks> {
  const { writeLayer } = await import("./layer/write.ts");
  const excluded = [...(await mountPoints()), ...mounts.map(guestPlaceOf), ...notTheSessions];
  return writeLayer({ upper: upperDirectory, excluded: excluded.filter((path) => path !== "/"), limit: maxBlobBytes });
}

async function restore(layer: Uint8Array): Promise<void> {
  const { applyLayer } = await import("./layer/apply.ts");
  try {
    await applyLayer({ layer: [layer], root: "/", onto: "merged" });
  } catch (error) {
    throw new ConsoleError("bootFailed", `the snapshot cannot be put in place: ${errorText(error)}`, { cause: error });
  }
}

/**
 * The server's own machine: commands see what the server sees. A tree is a directory that is already at its guest path, or
 * a symbolic link that is put there; nothing is mounted, so `ro` binds only the writes that this server performs itself.
 */
import { constants } from "node:fs";
import { access, lstat, mkdir, readlink, realpath, rmdir, stat, symlink, unlink } from "node:fs/promises";
import { dirname } from "node:path";
import type { InitParams } from "#protocol/console/calls.ts";
import { ConsoleError } from "#protocol/console/errors.ts";
import { formatMount, guestPlaceOf, type Mount, urlBody } from "#protocol/console/mount.ts";
import { errorText } from "./file-error.ts";
import { type Place, type PlacedTree, refuseMachineAndNetwork } from "./place.ts";

export const hostPlace: Place = {
  accept(params: InitParams): void {
    for (const mount of params.mounts) {
      if (mount.scheme !== "file") {
        throw new ConsoleError("unsupportedMount", `this server mounts file:// only: ${formatMount(mount)}`);
      }
    }
    if (params.image !== undefined || params.snapshot !== undefined) {
      throw noBase("its commands run on the server's own filesystem");
    }
    refuseMachineAndNetwork(params);
  },
  home: (mounts) => mounts[0]?.guestPath ?? startDirectory(),
  environment: () => {
    const env: Record<string, string> = {};
    for (const [name, value] of Object.entries(process.env)) if (value !== undefined) env[name] = value;
    return env;
  },
  placeTree,
  guardWrite,
  snapshot: () => Promise.reject(noBase("there is no base beneath it to tell its writes from")),
  restore: () => Promise.reject(noBase("there is no base beneath it to put a layer on")),
};

function noBase(reason: string): ConsoleError {
  return new ConsoleError("unsupportedImage", `this session has no base image: ${reason}`);
}

function startDirectory(): string | undefined {
  try {
    const path = process.cwd();
    // A name that is not UTF-8 comes with replacement characters and would name something else.
    return path.includes("\ufffd") ? undefined : path;
  } catch {
    // Removed since the server was started in it.
    return undefined;
  }
}

async function placeTree(mount: Mount): Promise<PlacedTree> {
  const failed = (reason: string, cause?: unknown) =>
    new ConsoleError("mountFailed", `${formatMount(mount)}: ${reason}`, { cause });
  const source = urlBody(mount);
  const guestPath = guestPlaceOf(mount);
  try {
    const tree = await stat(source);
    if (!tree.isDirectory()) throw failed(`${source} is not a directory`);
    await access(source, constants.R_OK | constants.X_OK);
    const there = await lookAt(guestPath);
    if (there !== undefined) {
      if (there.dev === tree.dev && there.ino === tree.ino) return { release: async () => {} };
      throw failed(`something else is at ${guestPath}`);
    }
    const made = await mkdir(dirname(guestPath), { recursive: true });
    await symlink(source, guestPath);
    return { release: () => takeAway(guestPath, made) };
  } catch (error) {
    throw error instanceof ConsoleError ? error : failed(errorText(error), error);
  }
}

/** What a path leads to, or undefined when nothing is there at all. */
async function lookAt(path: string): Promise<{ dev: number; ino: number } | undefined> {
  try {
    return await stat(path);
  } catch (error) {
    if (!isMissing(error)) throw error;
  }
  try {
    return await lstat(path);
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw error;
  }
}

function isMissing(error: unknown): boolean {
  return error instanceof Error && "code" in error && error.code === "ENOENT";
}

/** Removes the link, and the directories above it that were made for it, from the lowest up to `made`. */
async function takeAway(link: string, made: string | undefined): Promise<void> {
  try {
    await unlink(link);
    if (made === undefined) return;
    for (let directory = dirname(link); ; directory = dirname(directory)) {
      await rmdir(directory);
      if (directory === made) return;
    }
  } catch {
    // Somebody uses what is there; it is theirs now.
  }
}

async function guardWrite(path: string, asSent: string, mounts: readonly Mount[]): Promise<void> {
  if (!mounts.some((mount) => mount.readOnly)) return;
  const target = await physicalPath(path);
  let innermost: { root: string; readOnly: boolean } | undefined;
  for (const mount of mounts) {
    const root = await realpath(urlBody(mount)).catch(() => undefined);
    if (root === undefined || !(target === root || target.startsWith(root === "/" ? root : `${root}/`))) continue;
    // Of one directory given twice, the later mount is the one on top.
    if (innermost === undefined || root.length >= innermost.root.length) innermost = { root, readOnly: mount.readOnly };
  }
  if (innermost?.readOnly === true) throw new ConsoleError("ioFailed", `${asSent}: read-only file system`);
}

/** as many links as the kernel follows in one path */
const maxLinks = 40;

/** Where a write to `path` would land, as far as it exists; the rest is appended as it is written. */
async function physicalPath(path: string, links = 0): Promise<string> {
  try {
    return await realpath(path);
  } catch (error) {
    if (!isMissing(error) || path === "/" || links > maxLinks) return path;
  }
  // A link to something that does not exist yet: opening it for writing makes its target.
  const target = await readlink(path).catch(() => undefined);
  if (target !== undefined) {
    return physicalPath(target.startsWith("/") ? target : `${dirname(path)}/${target}`, links + 1);
  }
  const parent = await physicalPath(dirname(path), links);
  return `${parent === "/" ? "" : parent}/${path.slice(path.lastIndexOf("/") + 1)}`;
}

import { randomUUID } from "node:crypto";
import { lstatSync, mkdtempSync, readdirSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import { VmError } from "./error.ts";
import { hostBootId, killProcess } from "./process-identity.ts";
import { currentState, isOwnerAlive, readVmRecord, type VmRecord, writeVmRecord } from "./state.ts";

const attempts = 5;
const helperEndTimeoutMs = 5_000;
/** A claim takes milliseconds: what is older was left by a claimant that died. */
const abandonedAfterMs = 60_000;

/**
 * Takes a name: prepares a directory with the record in it and renames it onto the name, which succeeds for one
 * claimant only. A directory whose owner is gone is cleaned first. Returns the directory (0700).
 * Throws {@link VmError} `name_taken`.
 */
export async function claimName(root: string, record: VmRecord): Promise<string> {
  sweepAbandoned(root);
  const directory = join(root, record.name);
  const prepared = prepareDirectory(root, record);
  try {
    for (let attempt = 1; attempt <= attempts; attempt++) {
      try {
        renameSync(prepared, directory);
        return directory;
      } catch (error) {
        const { code } = error as NodeJS.ErrnoException;
        if (code !== "ENOTEMPTY" && code !== "EEXIST" && code !== "ENOTDIR") throw error;
      }
      await removeLeftover(root, record.name);
    }
    throw new VmError("name_taken", `the name ${record.name} is being taken by someone else`);
  } catch (error) {
    rmSync(prepared, { recursive: true, force: true });
    throw error;
  }
}

/** A directory with the record in it, under a name of its own. Throws {@link VmError} `state_directory`. */
function prepareDirectory(root: string, record: VmRecord): string {
  let directory: string | undefined;
  try {
    directory = mkdtempSync(join(root, ".new-"));
    writeVmRecord(directory, record);
    return directory;
  } catch (cause) {
    if (directory !== undefined) rmSync(directory, { recursive: true, force: true });
    const message = `cannot make a directory for ${record.name} in ${root}: ${(cause as Error).message}`;
    throw new VmError("state_directory", message, cause);
  }
}

/**
 * Cleans what a VM that no longer runs left behind: its helpers, if they are still the same processes, and its
 * directory. Nothing in the directory is trusted but a valid record, and that only to find the helpers.
 * Throws {@link VmError} `name_taken` when the VM runs.
 */
export async function removeLeftover(root: string, name: string): Promise<void> {
  const directory = join(root, name);
  const before = lstatSync(directory, { throwIfNoEntry: false });
  if (before === undefined) return;
  const record = before.isDirectory() ? readVmRecord(directory) : undefined;
  if (record !== undefined) {
    const state = currentState(record);
    if (state === "starting" || state === "running") {
      throw new VmError("name_taken", `a VM named ${name} is already ${state} (owner pid ${record.owner.pid})`);
    }
    await endLeftoverProcesses(record);
  }
  // Moved aside first, so that the name is free at once and a half-removed directory is never seen under it.
  const aside = join(root, `.old-${randomUUID()}`);
  try {
    renameSync(directory, aside);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return;
    throw error;
  }
  const moved = lstatSync(aside);
  if (moved.ino !== before.ino || moved.dev !== before.dev) {
    // Another claimant was faster: what was moved is its new directory.
    renameSync(aside, directory);
    return;
  }
  rmSync(aside, { recursive: true, force: true });
}

/** Ends QEMU and vhost-device-vsock of a VM whose owner is gone. */
export async function endLeftoverProcesses(record: VmRecord): Promise<void> {
  if (record.bootId !== hostBootId() || isOwnerAlive(record)) return;
  const leftovers = [record.qemu, record.vsockDevice].filter((identity) => identity !== undefined);
  await Promise.all(leftovers.map((identity) => killProcess(identity, helperEndTimeoutMs)));
}

function sweepAbandoned(root: string): void {
  for (const entry of readdirSync(root)) {
    if (!entry.startsWith(".new-") && !entry.startsWith(".old-")) continue;
    const path = join(root, entry);
    const stat = lstatSync(path, { throwIfNoEntry: false });
    if (stat !== undefined && Date.now() - stat.ctimeMs > abandonedAfterMs)
      rmSync(path, { recursive: true, force: true });
  }
}

import { randomBytes } from "node:crypto";
import { lstat, rename, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { RequestOf } from "#protocol/control/requests.ts";
import { renameNoReplace } from "#sys/rename.ts";
import { ok, type Reply } from "../reply.ts";
import { RequestError, systemFailure } from "../request-error.ts";
import { copyTree } from "./copy-tree.ts";
import { type GuestPaths, isBeneath } from "./guest-paths.ts";
import { refuseMounts } from "./mount-guard.ts";

/** `file_rename`: never onto something that exists; across filesystems by copying, then removing. */
export async function moveEntry(paths: GuestPaths, request: RequestOf<"file_rename">): Promise<Reply> {
  const from = await paths.entry(request.from);
  const to = await paths.entry(request.to);
  if (from === paths.root) throw new RequestError("denied", `${from} cannot be renamed`);
  await refuseMounts(from);
  try {
    await moveWithin(from, to);
  } catch (cause) {
    if (Reflect.get(Object(cause), "code") !== "EXDEV") throw systemFailure("rename", cause);
    await moveAcross(from, to);
  }
  return ok;
}

async function moveWithin(from: string, to: string): Promise<void> {
  try {
    renameNoReplace(from, to);
  } catch (cause) {
    if (Reflect.get(Object(cause), "code") !== "EINVAL" || isBeneath(to, from)) throw cause;
    // A filesystem without the flag: looked at first, which is not atomic but never replaces knowingly.
    await refuseExisting(to);
    await rename(from, to);
  }
}

async function moveAcross(from: string, to: string): Promise<void> {
  await refuseExisting(to);
  const temporary = join(dirname(to), `.vmapp-${randomBytes(8).toString("hex")}.part`);
  try {
    await copyTree(from, temporary);
    await moveWithin(temporary, to);
  } catch (cause) {
    // On a read-only filesystem even this fails; what is told is the cause.
    await rm(temporary, { recursive: true, force: true }).catch(() => {});
    throw systemFailure("rename", cause);
  }
  await rm(from, { recursive: true }).catch((cause: unknown) => {
    throw systemFailure("rename: copied, but removing the original", cause);
  });
}

async function refuseExisting(path: string): Promise<void> {
  const there = await lstat(path).then(
    () => true,
    () => false,
  );
  if (there) throw new RequestError("exists", `rename failed: ${path} exists`);
}

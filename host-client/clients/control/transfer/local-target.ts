import { createHash } from "node:crypto";
import { constants } from "node:fs";
import { type FileHandle, lstat, open, readdir, rename, stat, unlink } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { fileTime } from "#protocol/control/file-time.ts";
import { ControlError } from "../error.ts";

/** a cut download shorter than this is not worth keeping */
const keptBytes = 1024 * 1024;

/**
 * A file of the host that is being downloaded: written beside its final place and renamed into it once it is whole. What was
 * cut is found again by the identity of the guest's file, and continued.
 */
export class LocalTarget {
  #written: number;

  private constructor(
    readonly path: string,
    private readonly partPath: string,
    private readonly file: FileHandle,
    /** bytes already there from an earlier attempt */
    readonly offset: number,
    private readonly continuable: boolean,
  ) {
    this.#written = offset;
  }

  /** `identity`: names the guest's file in its present state; without one nothing is taken up again or kept. */
  static async open(path: string, identity: string | undefined): Promise<LocalTarget> {
    await refuseOther(path);
    const partPath = `${partPrefix(path)}${shortHash(identity ?? crypto.randomUUID())}.part`;
    try {
      const offset = identity === undefined ? 0 : await partSize(partPath);
      const { O_WRONLY, O_CREAT, O_TRUNC, O_NOFOLLOW } = constants;
      // The name can be foreseen: a link planted there must not be followed.
      const file = await open(partPath, O_WRONLY | O_CREAT | O_NOFOLLOW | (offset > 0 ? 0 : O_TRUNC), 0o600);
      return new LocalTarget(path, partPath, file, offset, identity !== undefined);
    } catch (cause) {
      throw new ControlError("local", `cannot write ${path}: ${(cause as Error).message}`, { cause });
    }
  }

  /** bytes that the part has now */
  get written(): number {
    return this.#written;
  }

  async write(piece: Uint8Array): Promise<void> {
    try {
      for (let done = 0; done < piece.length; ) {
        const { bytesWritten } = await this.file.write(piece, done, piece.length - done, this.#written);
        done += bytesWritten;
        this.#written += bytesWritten;
      }
    } catch (cause) {
      throw new ControlError("local", `cannot write ${this.path}: ${(cause as Error).message}`, { cause });
    }
  }

  /** Puts the whole file in its place. `mtime` in seconds since the epoch. */
  async finish({ mode, mtime }: { mode: number; mtime: number | undefined }): Promise<void> {
    try {
      await this.file.chmod(mode & 0o777);
      if (mtime !== undefined) await this.file.utimes(fileTime(mtime), fileTime(mtime));
      await this.file.close();
      await rename(this.partPath, this.path);
    } catch (cause) {
      await unlink(this.partPath).catch(() => {});
      throw new ControlError("local", `cannot write ${this.path}: ${(cause as Error).message}`, { cause });
    }
    if (this.continuable) await removeOlderParts(this.path);
  }

  /** Gives up; a cut download is kept for the next attempt when it is worth it. */
  async abandon({ keep }: { keep: boolean }): Promise<void> {
    await this.file.close();
    if (!keep || this.#written < keptBytes) await unlink(this.partPath);
  }
}

/** What all parts of one file have in front of what tells them apart. */
function partPrefix(path: string): string {
  return join(dirname(path), `.vmapp-${shortHash(basename(path))}-`);
}

function shortHash(text: string): string {
  return createHash("sha256").update(text).digest("hex").slice(0, 16);
}

/** What was cut before the guest's file changed is of no more use. */
async function removeOlderParts(path: string): Promise<void> {
  const folder = dirname(path);
  const prefix = basename(partPrefix(path));
  const parts = (await readdir(folder).catch(() => [])).filter((name) => name.startsWith(prefix));
  for (const name of parts) await unlink(join(folder, name)).catch(() => {});
}

/** A rename would put the file in the place of a device, or fail on a folder once everything had been sent. */
async function refuseOther(path: string): Promise<void> {
  const there = await stat(path).catch(() => undefined);
  if (there === undefined || there.isFile()) return;
  const what = there.isDirectory() ? "a folder" : "neither a file nor a folder";
  throw new ControlError("local", `cannot write ${path}: it is ${what}`);
}

async function partSize(path: string): Promise<number> {
  const stats = await lstat(path).catch(() => undefined);
  return stats?.isFile() ? stats.size : 0;
}

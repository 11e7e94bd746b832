import { createHash, randomBytes } from "node:crypto";
import { constants } from "node:fs";
import { chmod, type FileHandle, mkdir, open, readdir, readFile, rename, unlink } from "node:fs/promises";
import { join } from "node:path";
import {
  decodeMarker,
  decodeRejected,
  encodeMarker,
  type Marker,
  markerNames,
  programName,
} from "#protocol/update-markers.ts";
import { elfRefusal } from "../../shell/elf.ts";
import { freeBytes } from "../free-space.ts";
import { hashFileSuffix } from "../own-hash.ts";
import type { RequestBody } from "../reply.ts";

/** Why a program is not taken. */
export class UpdateError extends Error {
  override readonly name = "UpdateError";
}

/** magic number, 64 bits, little endian */
const elf64Head = Buffer.from([0x7f, 0x45, 0x4c, 0x46, 2, 1]);

const incomingPrefix = "incoming-";

/** The agent's side of the update directory; see protocol/update-markers.ts for what the files mean. */
export class ProgramStore {
  constructor(readonly directory: string) {}

  async isRejected(sha256: string): Promise<boolean> {
    return decodeRejected(await this.#read(markerNames.rejected)).includes(sha256);
  }

  /**
   * Stores what arrives and offers it to PID 1, once it is known to be whole, to have the announced hash, to be a program for this
   * machine, and to be on the disk. Throws {@link UpdateError}, or a system error; nothing is left behind then.
   */
  async receive(body: RequestBody, marker: Marker): Promise<void> {
    await mkdir(this.directory, { recursive: true, mode: 0o700 });
    await this.sweep();
    const free = await freeBytes(this.directory);
    if (free !== undefined && marker.size > free)
      throw new UpdateError(`${marker.size} bytes do not fit: ${free} are free`);
    const incoming = join(this.directory, `${incomingPrefix}${randomBytes(8).toString("hex")}`);
    try {
      const file = await open(
        incoming,
        constants.O_RDWR | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW,
        0o600,
      );
      try {
        await writeVerified(file, body, marker);
        await requireRunnable(file);
        await file.chmod(0o755);
        await file.sync();
      } finally {
        await file.close();
      }
      const program = join(this.directory, programName(marker.sha256));
      await rename(incoming, program);
      await this.#writeWhole(`${programName(marker.sha256)}${hashFileSuffix}`, `${marker.sha256}\n`);
      await this.#writeWhole(markerNames.offered, encodeMarker(marker));
    } catch (error) {
      // Not the incoming file alone: a disk may have been full only when it came to the records.
      await this.sweep();
      throw error;
    }
  }

  /** To be called by a program that has proved itself: ends its trial if it is on trial. Returns whether it was. */
  async confirm(ownHash: string): Promise<boolean> {
    const pending = decodeMarker(await this.#read(markerNames.pending));
    if (pending?.sha256 !== ownHash) return false;
    await rename(join(this.directory, markerNames.pending), join(this.directory, markerNames.confirmed));
    await this.#sync();
    await this.sweep();
    return true;
  }

  /** Removes programs that no marker names, and what interrupted uploads have left. */
  async sweep(): Promise<void> {
    const named = new Set<string>();
    for (const name of [markerNames.offered, markerNames.pending, markerNames.confirmed]) {
      const marker = decodeMarker(await this.#read(name));
      if (marker !== undefined) named.add(programName(marker.sha256));
    }
    for (const name of await readdir(this.directory).catch(() => [])) {
      const program = name.endsWith(hashFileSuffix) ? name.slice(0, -hashFileSuffix.length) : name;
      const stale = name.startsWith(incomingPrefix) || (program.startsWith("program-") && !named.has(program));
      if (stale) await unlink(join(this.directory, name)).catch(() => {});
    }
  }

  #read(name: string): Promise<string> {
    return readFile(join(this.directory, name), "utf8").catch(() => "");
  }

  /** Puts a small file in place in one step, and on the disk. */
  async #writeWhole(name: string, text: string): Promise<void> {
    const temporary = join(this.directory, `${incomingPrefix}${name}`);
    const file = await open(temporary, "w", 0o600);
    try {
      await file.writeFile(text);
      await file.sync();
    } finally {
      await file.close();
    }
    await chmod(temporary, 0o644);
    await rename(temporary, join(this.directory, name));
    await this.#sync();
  }

  async #sync(): Promise<void> {
    const handle = await open(this.directory, constants.O_RDONLY | constants.O_DIRECTORY);
    await handle
      .sync()
      .catch(() => {})
      .finally(() => handle.close());
  }
}

async function writeVerified(file: FileHandle, body: RequestBody, marker: Marker): Promise<void> {
  const hash = createHash("sha256");
  for (let piece = await body.next(); piece !== undefined; piece = await body.next()) {
    hash.update(piece);
    for (let written = 0; written < piece.length; ) {
      written += (await file.write(piece, written, piece.length - written, null)).bytesWritten;
    }
  }
  if (hash.digest("hex") !== marker.sha256) throw new UpdateError("the program does not have the announced hash");
}

/** A program for another machine, or for a loader that is not there, would fail only when it is started. */
async function requireRunnable(file: FileHandle): Promise<void> {
  const head = Buffer.alloc(elf64Head.length);
  await file.read(head, 0, head.length, 0);
  if (!head.equals(elf64Head)) throw new UpdateError("what was sent is not an executable");
  const refusal = elfRefusal(file.fd);
  if (refusal !== undefined) throw new UpdateError(`the program cannot run here: ${refusal}`);
}

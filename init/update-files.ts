/** PID 1's side of the update directory; see protocol/update-markers.ts for what the files mean. Small, synchronous, rare. */
import {
  closeSync,
  constants,
  fsyncSync,
  lstatSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  writeSync,
} from "node:fs";
import { join } from "node:path";
import {
  decodeMarker,
  decodeRejected,
  encodeRejected,
  type Marker,
  markerNames,
  programName,
} from "#protocol/update-markers.ts";

export class UpdateFiles {
  constructor(readonly directory: string) {}

  offered(): Marker | undefined {
    return this.#marker(markerNames.offered);
  }

  pending(): Marker | undefined {
    return this.#marker(markerNames.pending);
  }

  confirmed(): Marker | undefined {
    return this.#marker(markerNames.confirmed);
  }

  pathOf({ sha256 }: Marker): string {
    return join(this.directory, programName(sha256));
  }

  /** Why a stored program may not be started, or undefined. Its hash was checked as it was stored; nobody else can have changed it. */
  objection(marker: Marker): string | undefined {
    try {
      const stats = lstatSync(this.pathOf(marker));
      if (!stats.isFile()) return "it is not a regular file";
      if (stats.uid !== process.getuid?.()) return `it belongs to user ${stats.uid}`;
      if ((stats.mode & 0o022) !== 0) return "others may write to it";
      if ((stats.mode & 0o100) === 0) return "it is not executable";
      return stats.size === marker.size ? undefined : `it has ${stats.size} bytes instead of ${marker.size}`;
    } catch (error) {
      return error instanceof Error ? error.message : String(error);
    }
  }

  /** The offered program is about to be started. */
  begin(): void {
    renameSync(join(this.directory, markerNames.offered), join(this.directory, markerNames.pending));
    this.#sync();
  }

  /** Remembers that a program did not work, so that it is neither started nor taken again. */
  reject(marker: Marker): void {
    const path = join(this.directory, markerNames.rejected);
    const text = encodeRejected([...decodeRejected(this.#text(markerNames.rejected)), marker.sha256]);
    const temporary = `${path}.new`;
    const fd = openSync(
      temporary,
      constants.O_WRONLY | constants.O_CREAT | constants.O_TRUNC | constants.O_NOFOLLOW,
      0o600,
    );
    try {
      writeSync(fd, text);
      fsyncSync(fd);
    } finally {
      closeSync(fd);
    }
    renameSync(temporary, path);
    this.discard(marker);
  }

  /** Removes a program and what marks it. */
  discard(marker: Marker): void {
    for (const name of [markerNames.offered, markerNames.pending, markerNames.confirmed]) {
      if (this.#marker(name)?.sha256 === marker.sha256) rmSync(join(this.directory, name), { force: true });
    }
    rmSync(this.pathOf(marker), { force: true });
    rmSync(`${this.pathOf(marker)}.sha256`, { force: true });
    this.#sync();
  }

  #text(name: string): string {
    try {
      return readFileSync(join(this.directory, name), "utf8");
    } catch {
      return "";
    }
  }

  #marker(name: string): Marker | undefined {
    return decodeMarker(this.#text(name));
  }

  #sync(): void {
    const fd = openSync(this.directory, constants.O_RDONLY | constants.O_DIRECTORY);
    try {
      fsyncSync(fd);
    } catch {
      // A filesystem in memory need not offer it.
    } finally {
      closeSync(fd);
    }
  }
}

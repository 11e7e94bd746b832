/** The files of a guest, for programs: `guest.files`. Paths in the guest are absolute. */
import { chmod, mkdir, stat } from "node:fs/promises";
import { join, posix } from "node:path";
import type { FileEntry, FileStat } from "#protocol/control/replies.ts";
import { ControlError } from "./clients/control/error.ts";
import {
  getFile,
  listFolder,
  makeFolder,
  type PutOptions,
  putFile,
  removeEntry,
  renameEntry,
  statEntry,
} from "./clients/control/files.ts";
import { ControlPool } from "./clients/control/pool.ts";
import { downloadFile } from "./clients/control/transfer/download.ts";
import { openLocalSource } from "./clients/control/transfer/local-source.ts";
import { type OnProgress, ProgressSum } from "./clients/control/transfer/progress.ts";
import { transferRoot } from "./clients/control/transfer/root.ts";
import { sideBySide } from "./clients/control/transfer/side-by-side.ts";
import { guestTree, localTree } from "./clients/control/transfer/trees.ts";
import type { Connection } from "./transport/connection.ts";

export interface PutTreeOptions extends TransferOptions {
  /** permission bits of a single file; those of the source when absent */
  readonly mode?: number;
}

export interface TransferOptions {
  readonly onProgress?: OnProgress | undefined;
}

/** What a transfer left out. */
export interface TransferResult {
  /** paths below its root: links to folders and to nowhere, FIFOs, sockets, devices */
  readonly skipped: readonly string[];
  /** entries of the guest whose names are not UTF-8, so that the guest cannot tell them */
  readonly notUtf8: number;
}

const nothingLeftOut: TransferResult = { skipped: [], notUtf8: 0 };

const defaultReadBytes = 64 * 1024 * 1024;

export class GuestFiles implements Disposable {
  readonly #pool: ControlPool;

  /** `dial` opens a connection to the guest's control port; several may be open at once. `guest` tells it from other guests. */
  constructor(
    dial: () => Promise<Connection>,
    private readonly guest = "",
  ) {
    this.#pool = new ControlPool(dial);
  }

  list(path: string): Promise<FileEntry[]> {
    return this.#pool.use(async (control) => [...(await listFolder(control, path)).entries]);
  }

  /** Undefined when there is nothing at that path; links are followed unless `nofollow`. */
  stat(path: string, options: { nofollow?: boolean } = {}): Promise<FileStat | undefined> {
    return this.#pool.use((control) => statEntry(control, path, options));
  }

  /** With the folders above it; one that exists is no error. */
  mkdir(path: string): Promise<void> {
    return this.#pool.use((control) => makeFolder(control, path));
  }

  /** A folder with all that is in it. */
  remove(path: string): Promise<void> {
    return this.#pool.use((control) => removeEntry(control, path));
  }

  /** Fails with `exists` rather than replace something. */
  rename(from: string, to: string): Promise<void> {
    return this.#pool.use((control) => renameEntry(control, from, to));
  }

  /** The content of a file; `too_large` over `maxBytes`, 64 MiB when absent. */
  read(path: string, { maxBytes = defaultReadBytes }: { maxBytes?: number } = {}): Promise<Buffer> {
    return this.#pool.use(async (control) => {
      const pieces: Uint8Array[] = [];
      await getFile(control, path, {
        onStart: ({ size }) => {
          if (size > maxBytes)
            throw new ControlError("too_large", `file_get ${path}: ${size} bytes, over the ${maxBytes} allowed`);
        },
        onPiece: (piece) => {
          pieces.push(piece);
        },
      });
      return Buffer.concat(pieces);
    });
  }

  /** Streams a file into `onPiece`, which is awaited. */
  async readInto(path: string, onPiece: (piece: Uint8Array) => Promise<void> | void): Promise<void> {
    await this.#pool.use((control) => getFile(control, path, { onPiece }));
  }

  /** Writes a file whole: the old content stays until the new one is complete. */
  write(path: string, content: Uint8Array | string, options: PutOptions = {}): Promise<void> {
    const bytes = typeof content === "string" ? Buffer.from(content, "utf8") : content;
    return this.#pool.use((control) => putFile(control, path, { size: bytes.length, pieces: [bytes] }, options));
  }

  /** Copies a file or folder of the host to exactly that path in the guest, with modes and the files' times. */
  async put(local: string, remote: string, { onProgress, mode }: PutTreeOptions = {}): Promise<TransferResult> {
    const stats = await stat(local).catch((cause: unknown) => {
      throw new ControlError("local", `cannot read ${local}: ${(cause as Error).message}`, { cause });
    });
    if (!stats.isDirectory()) {
      await this.#putOne(local, remote, new ProgressSum(stats.size, 1, onProgress), { sync: true, mode });
      return nothingLeftOut;
    }
    const { folders, files, skipped, notUtf8 } = await localTree(local);
    for (const folder of folders) {
      const path = posix.join(remote, folder.path);
      await this.#pool.use((control) => makeFolder(control, path, { mode: folder.mode }));
    }
    const sum = new ProgressSum(sizeOf(files), files.length, onProgress);
    await sideBySide(files, this.#pool.size, ({ path }) =>
      this.#putOne(join(local, path), posix.join(remote, path), sum, { sync: false }),
    );
    return { skipped, notUtf8 };
  }

  /** Copies a file or folder of the guest to exactly that path on the host, with modes and the files' times. */
  async get(remote: string, local: string, { onProgress }: TransferOptions = {}): Promise<TransferResult> {
    const pool = this.#pool;
    const root = await pool.use(async (control) => transferRoot(control, remote));
    if (root.kind === "file") {
      const sum = new ProgressSum(root.size, 1, onProgress);
      const onBytes = (bytes: number): void => sum.moved(bytes);
      const { size, mode } = root;
      await downloadFile({ pool, guest: this.guest, from: remote, to: local, size, mode, onBytes });
      sum.fileDone();
      return nothingLeftOut;
    }
    const { folders, files, notUtf8, ...tree } = await pool.use((control) => guestTree(control, remote, root.mode));
    const skipped = [...tree.skipped];
    const made: { readonly path: string; readonly mode: number }[] = [];
    for (const folder of folders) {
      const path = join(local, folder.path);
      if ((await mkdir(path, { recursive: true, mode: folder.mode | 0o700 })) !== undefined)
        made.push({ path, mode: folder.mode });
    }
    const sum = new ProgressSum(sizeOf(files), files.length, onProgress);
    await sideBySide(files, pool.size, async ({ path, size, mode, uncertain }) => {
      const from = posix.join(remote, path);
      const onBytes = (bytes: number): void => sum.moved(bytes);
      try {
        await downloadFile({ pool, guest: this.guest, from, to: join(local, path), size, mode, onBytes });
      } catch (error) {
        if (uncertain !== true || !(error instanceof ControlError) || error.code !== "refused") throw error;
        skipped.push(path);
      }
      sum.fileDone();
    });
    // Only now, and children first: a folder may be one that not even its owner may write to.
    for (const { path, mode } of made.reverse()) await chmod(path, mode);
    return { skipped, notUtf8 };
  }

  /** Breaks off what is under way: it fails with `closed` and leaves no more behind than a cut that can be continued. */
  abort(): void {
    this.#pool.abort();
  }

  /** Closes the idle connections. */
  [Symbol.dispose](): void {
    this.#pool.close();
  }

  async #putOne(local: string, remote: string, sum: ProgressSum, given: PutOptions): Promise<void> {
    const source = await openLocalSource(local);
    try {
      let told = 0;
      const onProgress = (sent: number): void => {
        // The trailer behind the content is no content.
        const content = Math.min(sent, source.size);
        sum.moved(content - told);
        told = content;
      };
      const { mtime } = source;
      const options = { ...given, mode: given.mode ?? source.mode, mtime, onProgress };
      await this.#pool.use((control) => putFile(control, remote, source, options));
      sum.fileDone();
    } finally {
      await source.close();
    }
  }
}

function sizeOf(files: readonly { readonly size: number }[]): number {
  return files.reduce((sum, { size }) => sum + size, 0);
}

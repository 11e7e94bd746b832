/** How far a transfer is. */
export interface TransferProgress {
  /** content bytes moved, of all files together */
  readonly bytes: number;
  /** content bytes in all */
  readonly totalBytes: number;
  /** files that are complete */
  readonly files: number;
  readonly totalFiles: number;
}

export type OnProgress = (progress: TransferProgress) => void;

/** Adds up the progress of files that move side by side. */
export class ProgressSum {
  #bytes = 0;
  #files = 0;

  constructor(
    private readonly totalBytes: number,
    private readonly totalFiles: number,
    private readonly onProgress: OnProgress | undefined,
  ) {}

  moved(bytes: number): void {
    this.#bytes += bytes;
    this.#tell();
  }

  fileDone(): void {
    this.#files++;
    this.#tell();
  }

  #tell(): void {
    this.onProgress?.({
      bytes: this.#bytes,
      totalBytes: this.totalBytes,
      files: this.#files,
      totalFiles: this.totalFiles,
    });
  }
}

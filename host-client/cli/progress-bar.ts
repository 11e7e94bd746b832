import type { OnProgress, TransferProgress } from "../clients/control/transfer/progress.ts";
import { formatBytes } from "./byte-size.ts";

const redrawMs = 100;
const barColumns = 24;

/** A line on a terminal that shows how far a transfer is; nothing at all elsewhere. */
export class ProgressBar implements Disposable {
  readonly #started = performance.now();
  #drawn = 0;
  #latest: TransferProgress | undefined;
  #shown = false;

  constructor(
    private readonly label: string,
    private readonly stream: { readonly isTTY?: boolean; readonly columns?: number; write(text: string): unknown },
  ) {}

  /** for a transfer's `onProgress`; undefined where no bar is shown */
  get onProgress(): OnProgress | undefined {
    return this.stream.isTTY ? (progress) => this.#update(progress) : undefined;
  }

  /** Leaves the last state on the terminal and ends its line. */
  [Symbol.dispose](): void {
    if (!this.#shown || this.#latest === undefined) return;
    this.#draw(this.#latest);
    this.stream.write("\n");
  }

  #update(progress: TransferProgress): void {
    this.#latest = progress;
    const now = performance.now();
    if (now - this.#drawn < redrawMs) return;
    this.#drawn = now;
    this.#draw(progress);
  }

  #draw(progress: TransferProgress): void {
    this.#shown = true;
    const seconds = (performance.now() - this.#started) / 1000;
    const line = progressLine(this.label, progress, seconds, this.stream.columns ?? 80);
    this.stream.write(`\r\x1b[K${line}`);
  }
}

/** `name  [=====>    ]  45%  12 MiB of 27 MiB  8.1 MiB/s  3/9 files`, cut to the terminal's width. */
export function progressLine(label: string, progress: TransferProgress, seconds: number, columns: number): string {
  const { bytes, totalBytes, files, totalFiles } = progress;
  const share = totalBytes === 0 ? (files >= totalFiles ? 1 : 0) : Math.min(1, bytes / totalBytes);
  const filled = Math.floor(share * barColumns);
  const bar = `[${"=".repeat(filled)}${filled < barColumns ? ">" : ""}${" ".repeat(Math.max(0, barColumns - filled - 1))}]`;
  const speed = seconds > 0 ? `  ${formatBytes(bytes / seconds)}/s` : "";
  const count = totalFiles > 1 ? `  ${files}/${totalFiles} files` : "";
  const numbers = `${bar} ${String(Math.floor(share * 100)).padStart(3)}%  ${formatBytes(bytes)} of ${formatBytes(totalBytes)}${speed}${count}`;
  const room = Math.max(0, columns - numbers.length - 3);
  const name = label.length <= room ? label : `…${label.slice(label.length - Math.max(0, room - 1))}`;
  return `${room > 1 ? `${name}  ` : ""}${numbers}`.slice(0, Math.max(1, columns - 1));
}

import { setTimeout as sleep } from "node:timers/promises";
import { TransportError } from "../../../transport/error.ts";
import { VmError } from "../../../vm/error.ts";
import { ControlError } from "../error.ts";
import { getFile, statEntry } from "../files.ts";
import type { ControlPool } from "../pool.ts";
import { LocalTarget } from "./local-target.ts";

/** from this size on a cut download is continued instead of begun anew */
const resumedBytes = 1024 * 1024;

const attempts = 4;
const pauseMs = 1_000;

export interface DownloadOptions {
  readonly pool: ControlPool;
  /** tells one guest from another: what was cut is never continued with the file of another */
  readonly guest: string;
  /** absolute path in the guest */
  readonly from: string;
  /** path on the host; replaced in one step */
  readonly to: string;
  /** bytes that the file was last seen to have; a small one is not asked about again */
  readonly size: number;
  /** permission bits where the guest does not tell them */
  readonly mode: number;
  /** called with bytes newly there; the first call counts what an earlier attempt had left */
  readonly onBytes?: ((bytes: number) => void) | undefined;
}

/** Downloads one file, and continues it over a new connection when the old one is cut and the guest's file is still the same. */
export async function downloadFile(options: DownloadOptions): Promise<void> {
  let best = 0;
  for (let attempt = 1; ; attempt++) {
    try {
      await attemptDownload(options, (written) => {
        if (written <= best) return;
        options.onBytes?.(written - best);
        best = written;
        attempt = 1;
      });
      return;
    } catch (error) {
      if (!wasCut(error) || options.pool.aborted || attempt >= attempts || best < resumedBytes) throw error;
    }
    await sleep(pauseMs);
  }
}

async function attemptDownload(
  { pool, guest, from, to, size, mode }: DownloadOptions,
  onWritten: (written: number) => void,
): Promise<void> {
  await pool.use(async (control) => {
    const resumable = size >= resumedBytes && control.hasCap("file.range") && control.hasCap("file.stat");
    const stats = resumable ? await statEntry(control, from) : undefined;
    const identity =
      stats !== undefined && stats.size >= resumedBytes
        ? JSON.stringify([guest, from, stats.size, stats.mtime])
        : undefined;
    const target = await LocalTarget.open(to, identity);
    try {
      onWritten(target.offset);
      const data = await getFile(control, from, {
        ...(target.offset > 0 ? { offset: target.offset } : {}),
        onStart: (announced) => {
          if (target.offset > 0 && (announced.mtime !== stats?.mtime || announced.total !== stats?.size))
            throw new ControlError("changed", `file_get ${from}: the file changed before it could be continued`);
        },
        onPiece: async (piece) => {
          await target.write(piece);
          onWritten(target.written);
        },
      });
      const perm = data.perm === undefined ? mode : Number.parseInt(data.perm, 8);
      await target.finish({ mode: perm, mtime: data.mtime });
    } catch (error) {
      await target.abandon({ keep: identity !== undefined && wasCut(error) }).catch(() => {});
      throw error;
    }
  });
}

function wasCut(error: unknown): boolean {
  if (error instanceof TransportError) return error.code !== "bad_target" && error.code !== "unsupported";
  if (error instanceof VmError) return error.code === "unreachable";
  return error instanceof ControlError && (error.code === "closed" || error.code === "timeout");
}

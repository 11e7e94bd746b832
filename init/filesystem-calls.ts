/**
 * Calls that may block for ever when what serves a filesystem is gone, each with a time limit. A blocked call cannot be
 * ended, so it runs in a Worker, which is left behind when the limit passes.
 */
import { startWorker } from "#sys/worker.ts";

export type FilesystemCall =
  | { readonly do: "sync" }
  | { readonly do: "unmount" | "detach" | "remount-read-only"; readonly target: string };

export interface FilesystemReply {
  /** why the call failed; undefined when it succeeded */
  readonly error: string | undefined;
}

export class FilesystemCalls {
  #worker: Worker | undefined;

  /** Undefined when the call succeeded within the limit, else what went wrong. Never rejects. One call at a time. */
  run(call: FilesystemCall, limitMs: number): Promise<string | undefined> {
    return new Promise((resolve) => {
      const worker = this.#worker ?? startWorker("init/filesystem-worker.ts");
      this.#worker = worker;
      const finish = (problem: string | undefined): void => {
        clearTimeout(timer);
        worker.onmessage = null;
        worker.onerror = null;
        resolve(problem);
      };
      const abandon = (problem: string): void => {
        this.#worker = undefined;
        finish(problem);
      };
      const timer = setTimeout(() => abandon(`no answer within ${limitMs} ms`), limitMs);
      worker.onmessage = ({ data }: MessageEvent<FilesystemReply>) => finish(data.error);
      worker.onerror = (event) => abandon(`the thread failed: ${event.message}`);
      worker.postMessage(call);
    });
  }
}

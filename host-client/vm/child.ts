import type { ChildProcess } from "node:child_process";
import type { Readable } from "node:stream";
import { VmError } from "./error.ts";
import { identifyProcess, type ProcessIdentity } from "./process-identity.ts";

const keptMessageBytes = 8 * 1024;

/** A child process with its identity, its last words on standard error, and its end. */
export class Child {
  readonly identity: ProcessIdentity;
  /** resolves with how it ended, in words, when its streams are closed too; never rejects */
  readonly ended: Promise<string>;
  private kept = "";

  /** Takes over a process that was just spawned. Throws {@link VmError} `start_failed` when it could not be run. */
  constructor(
    private readonly title: string,
    private readonly child: ChildProcess,
  ) {
    this.ended = new Promise((resolve) => {
      child.once("error", (error) => resolve(`${title} could not be run: ${error.message}`));
      child.once("close", (code, signal) => resolve(`${title} ended with ${signal ?? `status ${code}`}`));
    });
    child.stderr?.setEncoding("utf8").on("data", (text: string) => {
      this.kept = (this.kept + text).slice(-keptMessageBytes);
    });
    const identity = child.pid === undefined ? undefined : identifyProcess(child.pid);
    if (identity === undefined) throw new VmError("start_failed", `${title} could not be run`);
    this.identity = identity;
  }

  /** the end of what it wrote to standard error */
  get messages(): string {
    return this.kept.trim();
  }

  get stdout(): Readable {
    if (this.child.stdout === null) throw new Error(`${this.title} has no standard output pipe`);
    return this.child.stdout;
  }

  kill(): void {
    this.child.kill("SIGKILL");
  }
}

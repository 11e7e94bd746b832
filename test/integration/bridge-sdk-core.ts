/** App cores over the SDK on one runtime: Bun runs the source, Node a bundle of it. */
import { expect } from "bun:test";
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type CoreProcess, type HostLines, startCore } from "./bridge-core-process.ts";

type Runtime = "Bun" | "Node";

const source = new URL("./bridge-core.ts", import.meta.url).pathname;

export class SdkCores implements Disposable {
  static readonly runtimes: readonly Runtime[] = ["Bun", "Node"];
  readonly #directory = mkdtempSync(join(tmpdir(), "vmapp-core-bundle-"));
  readonly #command: readonly string[];
  readonly #started: CoreProcess[] = [];

  constructor(runtime: Runtime) {
    if (runtime === "Bun") {
      this.#command = [process.execPath, source];
      return;
    }
    const bundle = join(this.#directory, "core.mjs");
    execFileSync(process.execPath, ["build", source, "--target=node", "--format=esm", `--outfile=${bundle}`]);
    this.#command = ["node", bundle];
  }

  async start(env: Record<string, string> = {}, directory?: string): Promise<CoreProcess> {
    const core = await startCore({ command: this.#command, env, ...(directory === undefined ? {} : { directory }) });
    this.#started.push(core);
    return core;
  }

  /** A core whose host has said `init` and heard `ready`. */
  async startReady(env: Record<string, string> = {}): Promise<{ core: CoreProcess; host: HostLines }> {
    const core = await this.start(env);
    const host = await core.connect();
    await host.start();
    return { core, host };
  }

  /** Ends those that run. */
  async stop(): Promise<void> {
    for (const core of this.#started.splice(0)) await core.stop();
  }

  [Symbol.dispose](): void {
    rmSync(this.#directory, { recursive: true, force: true });
  }
}

export async function expectAnswers(host: HostLines, id = 999): Promise<void> {
  expect(await host.invoke(id, "echo", "still", "here")).toMatchObject({ result: ["still", "here"] });
}

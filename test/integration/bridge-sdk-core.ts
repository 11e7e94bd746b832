/** App cores over the SDK, on each runtime that it is for: Bun runs the source, Node a bundle of it. */
import { afterAll, afterEach, beforeAll, describe, expect } from "bun:test";
import { execFileSync, spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type CoreProcess, type HostLines, startCore } from "./bridge-core-process.ts";

const source = new URL("./bridge-core.ts", import.meta.url).pathname;

/** Describes what holds on every runtime; `cores` is for its tests. */
export function describeCoreEnd(tests: (cores: SdkCores) => void): void {
  const directory = mkdtempSync(join(tmpdir(), "vmapp-core-bundle-"));
  const bundle = join(directory, "core.mjs");
  beforeAll(() => {
    execFileSync(process.execPath, ["build", source, "--target=node", "--format=esm", `--outfile=${bundle}`]);
  });
  afterAll(() => rmSync(directory, { recursive: true, force: true }));

  describe.each([
    ["Bun", [process.execPath, source]],
    ["Node", ["node", bundle]],
  ] as const)("the core end on %s", (_, command) => {
    const cores = new SdkCores(command);
    afterEach(() => cores.stop());
    tests(cores);
  });
}

class SdkCores {
  readonly #command: readonly string[];
  readonly #started: CoreProcess[] = [];

  constructor(command: readonly string[]) {
    this.#command = command;
  }

  async start(env: Record<string, string> = {}, directory?: string): Promise<CoreProcess> {
    const core = await startCore({ command: this.#command, env, ...(directory === undefined ? {} : { directory }) });
    this.#started.push(core);
    return core;
  }

  /** A core that is not expected to listen. */
  run(env: Record<string, string>): { ended: Promise<number | null>; log(): string } {
    const [program, ...args] = this.#command as [string, ...string[]];
    const child = spawn(program, args, { env: { ...process.env, ...env }, stdio: ["ignore", "ignore", "pipe"] });
    let logged = "";
    child.stderr.on("data", (chunk: Buffer) => {
      logged += chunk.toString();
    });
    return { ended: new Promise((resolve) => child.once("close", resolve)), log: () => logged };
  }

  /** A core whose host has said `init` and heard `ready`. */
  async startReady(env: Record<string, string> = {}): Promise<{ core: CoreProcess; host: HostLines }> {
    const core = await this.start(env);
    const host = await core.connect();
    await host.start();
    return { core, host };
  }

  async stop(): Promise<void> {
    for (const core of this.#started.splice(0)) await core.stop();
  }
}

export async function expectAnswers(host: HostLines, id = 999): Promise<void> {
  expect(await host.invoke(id, "echo", "still", "here")).toMatchObject({ result: ["still", "here"] });
}

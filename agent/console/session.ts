/**
 * A session: what can be reached, where it stands, and whether anything is occupied for it. Two states, `idle` and `up`;
 * `boot` and `release` are the only places that move between them.
 */
import type {
  ExecParams,
  ExecResult,
  InitParams,
  InitResult,
  ReadParams,
  ReadResult,
  WriteParams,
} from "#protocol/console/calls.ts";
import type { ByteChunks } from "#protocol/console/document-writer.ts";
import { ConsoleError } from "#protocol/console/errors.ts";
import { checkInit } from "#protocol/console/init-rules.ts";
import { joined } from "#protocol/console/members.ts";
import type { Mount } from "#protocol/console/mount.ts";
import { changeDirectory } from "./directory.ts";
import { type RunningCommand, startCommand } from "./exec.ts";
import type { Place, PlacedTree } from "./place.ts";
import { readFile } from "./read.ts";
import { writeFile } from "./write.ts";

type State = { readonly name: "idle" } | { readonly name: "up"; readonly trees: readonly PlacedTree[] };

/** What `init` said; it outlives every boot. */
interface Description {
  readonly mounts: readonly Mount[];
  /** where the session starts, and where `cd` without an argument goes */
  readonly home: string | undefined;
}

export class Session {
  readonly #place: Place;
  #state: State = { name: "idle" };
  #description: Description;
  #cwd: string | undefined;
  /** a layer to start from, until the first boot has put it in place */
  #layer: Uint8Array | undefined;
  #running: RunningCommand | undefined;
  /** how often the session was interrupted: an interrupt may come before the command that it is meant for has started */
  #interrupts = 0;

  /** A session that nobody described: no trees, standing where its place says. */
  constructor(place: Place) {
    this.#place = place;
    const home = place.home([]);
    this.#description = { mounts: [], home };
    this.#cwd = home;
  }

  /** Replaces the session, once all of it has been checked; a refused one leaves everything as it was. */
  async init(params: InitParams): Promise<InitResult> {
    checkInit(params);
    this.#place.accept(params);
    await this.#release();
    const home = this.#place.home(params.mounts);
    this.#description = { mounts: params.mounts, home };
    this.#cwd = home;
    this.#layer = params.snapshot === undefined ? undefined : joined(params.snapshot);
    return { cwd: home };
  }

  start(): Promise<void> {
    return this.#boot();
  }

  stop(): Promise<void> {
    return this.#release();
  }

  /** Kills the command of the call under way, if there is one: its answer is then how it ended. */
  interrupt(): void {
    this.#interrupts++;
    this.#running?.kill();
  }

  /** The session is over. Never rejects. */
  async end(): Promise<void> {
    this.interrupt();
    await this.#release();
  }

  async exec({ cmd, timeoutMs }: ExecParams): Promise<ExecResult> {
    const interrupts = this.#interrupts;
    await this.#boot();
    const [name] = cmd;
    if (name === undefined) throw new ConsoleError("invalidParams", "an empty command");
    if (name === "cd") return this.#changeDirectory(cmd.slice(1));
    const cwd = this.#standing("notExecutable");
    // Another program would print the physical path, which is not the name that the client knows.
    if (name === "pwd" && cmd.length === 1) return plainResult({ code: 0, stdout: `${cwd}\n` });
    this.#running = startCommand({ argv: cmd, cwd, env: { ...this.#place.environment(), PWD: cwd }, timeoutMs });
    if (interrupts !== this.#interrupts) this.#running.kill();
    try {
      return await this.#running.result;
    } finally {
      this.#running = undefined;
    }
  }

  async read(params: ReadParams): Promise<ReadResult> {
    await this.#boot();
    return readFile(this.#resolve(params.path), params);
  }

  async write(params: WriteParams): Promise<{ size: number }> {
    await this.#boot();
    const path = this.#resolve(params.path);
    await this.#place.guardWrite(path, params.path, this.#description.mounts);
    return writeFile(path, params);
  }

  async snapshot(): Promise<ByteChunks> {
    await this.#boot();
    return this.#place.snapshot(this.#description.mounts);
  }

  /** The path that a command would open by this name. Not cleaned: the kernel gives `..` its meaning. */
  #resolve(path: string): string {
    return path.startsWith("/") ? path : `${this.#standing("notFound")}/${path}`;
  }

  /** Where the session stands; throws ConsoleError `refusal` when that is a directory without a name. */
  #standing(refusal: "notExecutable" | "notFound"): string {
    if (this.#cwd !== undefined) return this.#cwd;
    throw new ConsoleError(refusal, "this session stands nowhere that has a name: `cd` to an absolute path first");
  }

  async #changeDirectory(words: readonly string[]): Promise<ExecResult> {
    const moved = await changeDirectory({ words, cwd: this.#cwd, home: this.#description.home });
    if (moved.kind === "stays") return plainResult({ code: 1, stderr: `cd: ${moved.reason}\n` });
    this.#cwd = moved.cwd;
    return plainResult({ code: 0 });
  }

  /** Brings the session up if it is not. What could not be put in place is taken back, and the session stays idle. */
  async #boot(): Promise<void> {
    if (this.#state.name === "up") return;
    if (this.#layer !== undefined) {
      await this.#place.restore(this.#layer);
      this.#layer = undefined;
    }
    const trees: PlacedTree[] = [];
    try {
      for (const mount of this.#description.mounts) trees.push(await this.#place.placeTree(mount));
    } catch (error) {
      await releaseTrees(trees);
      throw error;
    }
    this.#state = { name: "up", trees };
  }

  async #release(): Promise<void> {
    if (this.#state.name === "idle") return;
    const { trees } = this.#state;
    this.#state = { name: "idle" };
    await releaseTrees(trees);
  }
}

/** Last placed, first released: one tree may lie inside another. */
async function releaseTrees(trees: readonly PlacedTree[]): Promise<void> {
  for (const tree of trees.toReversed()) await tree.release();
}

function plainResult({
  code,
  stdout = "",
  stderr = "",
}: {
  code: number;
  stdout?: string;
  stderr?: string;
}): ExecResult {
  return { code, stdout: Buffer.from(stdout), stderr: Buffer.from(stderr), truncated: false };
}

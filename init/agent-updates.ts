/**
 * Which program runs as the agent: this executable's own, or one that a host has sent. A new one is on trial until it has answered a hello;
 * if it ends or the time is over before that, it is given up and the program before it runs again.
 */
import { type Marker, trialMs } from "#protocol/update-markers.ts";
import type { Log } from "#sys/log.ts";
import type { UpdateFiles } from "./update-files.ts";

/** Starts and ends the agent's process. */
export interface AgentRunner {
  /** Starts this program in the place of the running one, which is asked to finish: its sessions go on until they end. */
  handOver(executable: readonly [string, ...string[]]): void;
  /** Kills the running program and starts this one at once. */
  replace(executable: readonly [string, ...string[]]): void;
}

type State =
  /** `stored`: undefined for this executable's own program */
  | { readonly name: "steady"; readonly stored: Marker | undefined }
  | {
      readonly name: "trial";
      readonly stored: Marker;
      readonly before: Marker | undefined;
      readonly timer: NodeJS.Timeout;
    };

/** a confirmed program that ends so often in a row, each time so soon, is given up after all */
const hopeless = { runs: 5, withinMs: 10_000 };

export interface AgentUpdatesOptions {
  readonly files: UpdateFiles;
  /** how this executable is started */
  readonly self: readonly [string, ...string[]];
  /** build id of this executable */
  readonly base: string;
  readonly log: Log;
  /** milliseconds of a trial; that of the marker protocol when absent */
  readonly trialMs?: number;
}

export class AgentUpdates {
  readonly #options: AgentUpdatesOptions;
  #runner: AgentRunner | undefined;
  #state: State;
  #shortRuns = 0;

  constructor(options: AgentUpdatesOptions) {
    this.#options = options;
    const { files } = options;
    this.#discardForeign();
    const pending = files.pending();
    if (pending !== undefined) this.#giveUp(pending, "the machine went down before it was confirmed");
    let confirmed = files.confirmed();
    const objection = confirmed === undefined ? undefined : files.objection(confirmed);
    if (confirmed !== undefined && objection !== undefined) {
      this.#giveUp(confirmed, objection);
      confirmed = undefined;
    }
    this.#state = { name: "steady", stored: confirmed };
  }

  /** what is to be started as the agent at first */
  get executable(): readonly [string, ...string[]] {
    return this.#executableOf(this.#state.stored);
  }

  /** The agent has been started through this runner. A program offered before the machine went down gets its trial now. */
  started(runner: AgentRunner): void {
    this.#runner = runner;
    this.look();
  }

  /** Somebody says that there is a program on offer. */
  look(): void {
    this.#concludeIfConfirmed();
    const { files, log, trialMs: milliseconds = trialMs } = this.#options;
    const offered = files.offered();
    if (this.#state.name !== "steady" || offered === undefined || this.#runner === undefined) return;
    const objection = files.objection(offered);
    if (objection !== undefined) {
      this.#giveUp(offered, objection);
      return;
    }
    log.info("update on trial", { sha256: offered.sha256, seconds: milliseconds / 1000 });
    files.begin();
    const timer = setTimeout(() => this.#timeUp(), milliseconds);
    this.#state = { name: "trial", stored: offered, before: this.#state.stored, timer };
    this.#shortRuns = 0;
    this.#runner.handOver(this.#executableOf(offered));
  }

  /** The agent's process has ended after so long. Returns whether another program has been started for it. */
  ended(ranMs: number): boolean {
    this.#concludeIfConfirmed();
    const state = this.#state;
    if (state.name === "trial") {
      this.#fallBack(state.stored, state.before, "it ended before it was confirmed");
      return true;
    }
    this.#shortRuns = ranMs < hopeless.withinMs ? this.#shortRuns + 1 : 0;
    if (state.stored === undefined || this.#shortRuns < hopeless.runs) return false;
    this.#fallBack(state.stored, undefined, `it ended ${this.#shortRuns} times in a row`);
    return true;
  }

  /** The image has another vmapp-init than when the program was stored: the newer image counts. */
  #discardForeign(): void {
    const { files, base, log } = this.#options;
    for (const marker of [files.offered(), files.pending(), files.confirmed()]) {
      if (marker === undefined || marker.base === base) continue;
      log.info("stored program left behind: the image has another agent now", { sha256: marker.sha256 });
      files.discard(marker);
    }
  }

  #timeUp(): void {
    this.#concludeIfConfirmed();
    const state = this.#state;
    if (state.name === "trial") this.#fallBack(state.stored, state.before, "it answered no hello in time");
  }

  #concludeIfConfirmed(): void {
    const state = this.#state;
    if (state.name !== "trial" || this.#options.files.confirmed()?.sha256 !== state.stored.sha256) return;
    clearTimeout(state.timer);
    this.#options.log.info("update took", { sha256: state.stored.sha256 });
    this.#state = { name: "steady", stored: state.stored };
  }

  #fallBack(failed: Marker, before: Marker | undefined, reason: string): void {
    if (this.#state.name === "trial") clearTimeout(this.#state.timer);
    this.#shortRuns = 0;
    this.#giveUp(failed, reason);
    const usable = before !== undefined && this.#options.files.objection(before) === undefined ? before : undefined;
    this.#state = { name: "steady", stored: usable };
    this.#runner?.replace(this.#executableOf(usable));
  }

  #giveUp(marker: Marker, reason: string): void {
    const { files, log } = this.#options;
    log.error("update given up", { sha256: marker.sha256, reason });
    try {
      files.reject(marker);
    } catch (error) {
      log.error("a given-up update could not be recorded", {
        error: error instanceof Error ? error.message : String(error),
      });
    }
  }

  #executableOf(stored: Marker | undefined): readonly [string, ...string[]] {
    return stored === undefined ? this.#options.self : [this.#options.files.pathOf(stored)];
  }
}

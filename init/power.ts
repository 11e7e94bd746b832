/** Takes the machine down, step by step as `power-plan.ts` orders. Every step is bounded; one that fails is logged and the next one follows. */
import { readFileSync } from "node:fs";
import type { Log } from "#sys/log.ts";
import { type PowerAction, rebootMachine } from "#sys/power.ts";
import { sendSignal } from "#sys/process.ts";
import { FilesystemCalls } from "./filesystem-calls.ts";
import { parseMountTable } from "./mount-table.ts";
import {
  type FilesystemStep,
  filesystemLimitMs,
  type PowerStep,
  type ProcessGroup,
  planFilesystems,
  planPower,
  unmountBudgetMs,
} from "./power-plan.ts";
import { findLiving, processIds } from "./process-table.ts";
import type { Supervisor } from "./supervisor.ts";

const pollMs = 20;
const signals = { SIGTERM: 15, SIGKILL: 9, SIGCONT: 18 } as const;

/** up: nothing asked for; stopping: on the way down; hurried: asked again, so processes get no more time */
type Phase = "up" | "stopping" | "hurried";

export class Power {
  readonly #log: Log;
  readonly #supervisor: Supervisor;
  readonly #ownsMachine: boolean;
  readonly #calls = new FilesystemCalls();
  #phase: Phase = "up";

  constructor({ log, supervisor, ownsMachine }: { log: Log; supervisor: Supervisor; ownsMachine: boolean }) {
    this.#log = log;
    this.#supervisor = supervisor;
    this.#ownsMachine = ownsMachine;
  }

  /** Starts the way down. A second request hurries the first one, whose action stands. */
  request(action: PowerAction, reason: string): void {
    switch (this.#phase) {
      case "up":
        this.#phase = "stopping";
        this.#log.info("going down", { action, reason });
        void this.#goDown(action);
        return;
      case "stopping":
        this.#phase = "hurried";
        this.#log.warn("asked again: processes get no more time", { action, reason });
        return;
      case "hurried":
    }
  }

  async #goDown(action: PowerAction): Promise<void> {
    for (const step of planPower({ action, ownsMachine: this.#ownsMachine })) {
      try {
        await this.#carryOut(step);
      } catch (error) {
        this.#log.error("a step on the way down failed", { step: step.do, error: String(error) });
      }
    }
  }

  async #carryOut(step: PowerStep): Promise<void> {
    switch (step.do) {
      case "stop-supervising":
        return this.#supervisor.stop();
      case "signal":
        return this.#signal(step.who, step.signal);
      case "await-end":
        return this.#awaitEnd(step.who, step.limitMs);
      case "sync":
        return this.#report("sync", await this.#calls.run({ do: "sync" }, step.limitMs));
      case "release-filesystems":
        return this.#releaseFilesystems();
      case "ask-kernel":
        this.#log.info("down", { action: step.action });
        return this.#askKernel(step.action);
    }
  }

  /** Whether a process belongs to the group. */
  #membership(who: ProcessGroup): (pid: number) => boolean {
    const carriers = new Set(
      this.#supervisor
        .running()
        .filter((service) => service.carriesSessions)
        .map((service) => service.pid),
    );
    return (pid) => who === "everything" || carriers.has(pid) === (who === "session-carriers");
  }

  #signal(who: ProcessGroup, signal: "SIGTERM" | "SIGKILL"): void {
    if (process.pid !== 1) throw new Error("only process 1 may signal everything");
    if (who === "everything") {
      // The kernel's own list: a process that forks faster than /proc is read does not escape it. PID 1 is left out.
      sendSignal(-1, signals[signal]);
      return;
    }
    const isMember = this.#membership(who);
    for (const pid of processIds()) {
      if (!isMember(pid)) continue;
      sendSignal(pid, signals[signal]);
      // A stopped process acts on SIGTERM only once it runs again.
      sendSignal(pid, signals.SIGCONT);
    }
  }

  async #awaitEnd(who: ProcessGroup, limitMs: number): Promise<void> {
    const deadline = performance.now() + limitMs;
    // What has been killed is waited for in any case: while it goes, filesystems are busy.
    const hurried = () => this.#phase === "hurried" && who !== "everything";
    let left = findLiving(this.#membership(who));
    while (left !== undefined && performance.now() < deadline && !hurried()) {
      await Bun.sleep(pollMs);
      left = findLiving(this.#membership(who));
    }
    if (left !== undefined)
      this.#log.warn("processes did not end in time", { who, first: left.name, pid: left.pid, limitMs });
  }

  async #releaseFilesystems(): Promise<void> {
    const unmountDeadline = performance.now() + unmountBudgetMs;
    for (const step of planFilesystems(parseMountTable(readFileSync("/proc/self/mountinfo", "utf8")))) {
      if (step.do === "unmount" && performance.now() > unmountDeadline)
        this.#report(`unmount ${step.target}`, "the time for unmounting is used up");
      else await this.#release(step);
    }
  }

  async #release(step: FilesystemStep): Promise<void> {
    const { target } = step;
    const problem = await this.#calls.run({ do: step.do, target }, filesystemLimitMs);
    if (problem === undefined || step.do !== "unmount") return this.#report(`${step.do} ${target}`, problem);
    const next = await this.#calls.run({ do: step.otherwise, target }, filesystemLimitMs);
    this.#report(`unmount or ${step.otherwise} ${target}`, next === undefined ? undefined : `${problem}; ${next}`);
  }

  /** The end of a container's first process ends the container, also where it may not say how. */
  #askKernel(action: PowerAction): void {
    try {
      rebootMachine(action);
    } catch (error) {
      if (this.#ownsMachine) throw error;
      process.exit(0);
    }
  }

  #report(what: string, problem: string | undefined): void {
    if (problem !== undefined) this.#log.error(`cannot ${what}`, { error: problem });
  }
}

/** The process group of a command, to be killed as a whole. */
import { existsSync } from "node:fs";
import { sendSignal } from "#sys/process.ts";
import type { PipedChild } from "#sys/spawn.ts";

const SIGKILL = 9;

export class CommandGroup {
  readonly #leader: number;
  #leaderReaped = false;

  constructor(child: Pick<PipedChild, "pid" | "exited">) {
    this.#leader = child.pid;
    child.exited.then(() => {
      this.#leaderReaped = true;
    });
  }

  /**
   * Kills every process of the group. The kernel gives a group's number away only when the group is empty, so once the
   * leader has been waited for, a process of that very number is somebody else's and the group is over.
   */
  kill(): void {
    if (this.#leaderReaped && existsSync(`/proc/${this.#leader}`)) return;
    sendSignal(-this.#leader, SIGKILL);
  }
}

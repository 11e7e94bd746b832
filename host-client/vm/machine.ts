import { join } from "node:path";
import { type Address, maxSocketPathBytes } from "../transport/target.ts";
import { ConsoleLog } from "./console-log.ts";
import { VmError } from "./error.ts";
import { QemuRun, type QemuRunOptions, QemuStartError } from "./qemu-run.ts";
import { stateFiles } from "./state.ts";
import { randomCid, saysCidIsTaken, type VsockBackend } from "./vsock-backend.ts";

const cidAttempts = 8;

/** How a machine ended. */
export interface MachineEnd {
  state: "stopped" | "crashed";
  /** in words, for people */
  reason: string;
}

export type MachineOptions = Omit<QemuRunOptions, "vsock" | "console"> & { vsock: VsockBackend };

/**
 * A machine over its reboots: each boot is a {@link QemuRun} of its own. QEMU could reset the guest in place, but
 * vhost-device-vsock (0.3.0) deadlocks when anybody connects between the reset and the guest's driver; a new run also
 * ends the old connections at once, which a reset does not.
 */
export class Machine {
  /** resolves when nothing of it runs any more; never rejects */
  readonly ended: Promise<MachineEnd>;
  private killReason: string | undefined;
  private lastRun = false;

  private constructor(
    private readonly options: QemuRunOptions,
    private run: QemuRun,
  ) {
    this.ended = this.runOn();
  }

  /** Resolves when QEMU runs, long before the guest answers. Throws {@link VmError}; nothing is left running then. */
  static async start({ vsock, ...options }: MachineOptions): Promise<Machine> {
    for (const name of [
      stateFiles.vsock,
      stateFiles.closedVsock,
      stateFiles.vhostUser,
      stateFiles.qmp,
      stateFiles.ownerQmp,
    ]) {
      requireSocketPath(join(options.directory, name));
    }
    const console = new ConsoleLog(join(options.directory, stateFiles.consoleLog));
    try {
      for (let attempt = 1; ; attempt++) {
        const runOptions: QemuRunOptions = {
          ...options,
          console,
          vsock: vsock === "device" ? vsock : { cid: randomCid() },
        };
        try {
          return new Machine(runOptions, await QemuRun.start(runOptions));
        } catch (error) {
          const cidTaken = error instanceof QemuStartError && saysCidIsTaken(error.messages);
          if (!cidTaken || attempt === cidAttempts) throw error;
        }
      }
    } catch (error) {
      console.close();
      throw error;
    }
  }

  /** where the guest's ports are dialled, the same after each reboot */
  get target(): Address {
    return this.run.target;
  }

  get console(): ConsoleLog {
    return this.options.console;
  }

  /** From here on a reboot of the guest ends the machine. */
  endWithThisRun(): void {
    this.lastRun = true;
  }

  /** Ends the machine at once, as pulling the plug does. */
  kill(reason: string): void {
    this.killReason ??= reason;
    this.run.kill(reason);
  }

  private async runOn(): Promise<MachineEnd> {
    for (;;) {
      const { state, reason } = await this.run.ended;
      if (state !== "rebooted") return this.over({ state, reason });
      if (this.killReason !== undefined) return this.over({ state: "stopped", reason: this.killReason });
      if (this.lastRun) return this.over({ state: "stopped", reason });
      try {
        this.run = await QemuRun.start(this.options);
      } catch (error) {
        return this.over({
          state: "crashed",
          reason: `no start after the guest's reboot: ${(error as Error).message}`,
        });
      }
      // Killed or stopped while there was no run to kill or to stop.
      if (this.killReason !== undefined) this.run.kill(this.killReason);
      else if (this.lastRun) this.run.kill("it was stopped while its guest rebooted");
    }
  }

  private over(end: MachineEnd): MachineEnd {
    this.console.close();
    return end;
  }
}

function requireSocketPath(path: string): void {
  const bytes = Buffer.byteLength(path);
  if (bytes <= maxSocketPathBytes) return;
  throw new VmError(
    "state_directory",
    `${path} has ${bytes} bytes, and a socket's path at most ${maxSocketPathBytes}: use a shorter name, ` +
      "or point XDG_RUNTIME_DIR at a shorter path",
  );
}

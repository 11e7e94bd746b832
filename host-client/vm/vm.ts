import { rmSync } from "node:fs";
import { join } from "node:path";
import type { HelloReply } from "#protocol/control/replies.ts";
import { Guest } from "../guest.ts";
import type { Address } from "../transport/target.ts";
import type { Accelerator } from "./accelerator.ts";
import type { Machine, MachineEnd } from "./machine.ts";
import { stateFiles, type VmRecord, writeVmRecord } from "./state.ts";
import { type StopResult, stopMachine } from "./stop.ts";

/** How a VM ended. */
export type VmExit = MachineEnd;

/**
 * A running VM of this process. It ends when the guest powers off, when it is stopped or killed, and when this process
 * ends, however it ends.
 */
export class Vm implements AsyncDisposable {
  readonly guest: Guest;
  /** resolves when QEMU and its helpers are gone and the record says so */
  readonly exited: Promise<VmExit>;
  private stopping: Promise<StopResult> | undefined;

  /** Use {@link startVm}. */
  constructor(
    private readonly machine: Machine,
    private readonly record: VmRecord,
    /** state directory */
    readonly directory: string,
    exited: Promise<VmExit>,
    /** what the guest said of itself when it first answered */
    readonly hello: HelloReply,
    /** milliseconds from the start of QEMU to the guest's first answer */
    readonly readyAfterMs: number,
  ) {
    this.exited = exited;
    this.guest = Guest.at(machine.target, { name: record.name, consoleTail: () => this.consoleTail() });
  }

  get name(): string {
    return this.record.name;
  }

  /** where the guest's ports are dialled */
  get target(): Address {
    return this.machine.target;
  }

  get accelerator(): Accelerator | undefined {
    return this.record.accelerator;
  }

  /** The last lines of the guest's console, escape sequences removed. */
  consoleTail(lines?: number): string[] {
    return this.machine.console.tail(lines);
  }

  /** Powers the guest off; if it does not, ends QEMU. Says which step it took. Bounded by about 30 s. */
  async stop(): Promise<StopResult> {
    this.stopping ??= this.stopOnce();
    return this.stopping;
  }

  /** Ends the VM at once, as pulling the plug does. */
  async kill(): Promise<void> {
    this.machine.kill("it was killed");
    await this.exited;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }

  private async stopOnce(): Promise<StopResult> {
    this.machine.endWithThisRun();
    const { qemu } = this.record;
    if (qemu === undefined) throw new Error(`the VM ${this.name} has no QEMU on record`);
    const qmpSocket = join(this.directory, stateFiles.qmp);
    const result = await stopMachine({ target: this.machine.target, qmpSocket, qemu });
    await this.exited;
    return result;
  }
}

/** Writes down how a VM ended, and removes what nobody needs any more. */
export function recordEnd(directory: string, record: VmRecord, end: MachineEnd): void {
  if (record.remove) {
    rmSync(directory, { recursive: true, force: true });
    return;
  }
  record.state = end.state;
  record.ended = end.reason;
  try {
    writeVmRecord(directory, record);
  } catch {
    // As on a full disk. The VM has ended all the same, and is shown as dead once its owner is gone.
  }
  for (const socket of [stateFiles.vsock, stateFiles.vhostUser, stateFiles.qmp, stateFiles.ownerQmp]) {
    rmSync(join(directory, socket), { force: true });
  }
}

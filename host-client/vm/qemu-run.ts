import { rmSync } from "node:fs";
import { join } from "node:path";
import { type Address, formatTarget } from "../transport/target.ts";
import { Child } from "./child.ts";
import type { ConsoleLog } from "./console-log.ts";
import { VmError } from "./error.ts";
import { programs, requireProgram } from "./find-program.ts";
import type { ProcessIdentity } from "./process-identity.ts";
import { type QemuPlan, qemuArguments, type VsockDevice } from "./qemu-args.ts";
import { Qmp } from "./qmp.ts";
import { spawnTied } from "./spawn-tied.ts";
import { stateFiles } from "./state.ts";
import { startVsockDevice } from "./vsock-device.ts";
import { VsockGate } from "./vsock-gate.ts";

const monitorTimeoutMs = 10_000;
/** A panicking kernel writes its trace first. */
const panicGraceMs = 1_000;

/** What has started, for the record. */
export interface StartedFacts {
  qemu?: ProcessIdentity;
  vsockDevice?: ProcessIdentity;
  target?: string;
}

export interface QemuRunOptions {
  /** state directory */
  directory: string;
  plan: Omit<QemuPlan, "vsock" | "qmpSockets">;
  /** `device`: vhost-device-vsock; else the kernel's vhost-vsock with this CID */
  vsock: "device" | { cid: number };
  console: ConsoleLog;
  /** called when a process has started, so that it is on record before anything can go wrong */
  onStarted(facts: StartedFacts): void;
}

/** How one run of QEMU ended. */
export interface RunEnd {
  state: "rebooted" | "stopped" | "crashed";
  /** in words, for people */
  reason: string;
}

/** QEMU did not come up. `messages` is what it wrote to standard error. */
export class QemuStartError extends VmError {
  constructor(
    readonly messages: string,
    cause: Error,
  ) {
    super("start_failed", `QEMU did not start: ${messages || cause.message}`, cause);
  }
}

/**
 * One run of QEMU, from power-on to power-off or reboot, with its vsock device and its monitor. When QEMU ends, so do
 * they, and {@link ended} resolves.
 */
export class QemuRun {
  readonly ended: Promise<RunEnd>;
  private shutdownReason: string | undefined;
  private killReason: string | undefined;

  private constructor(
    readonly target: Address,
    private readonly console: ConsoleLog,
    private readonly qemu: Child,
    private readonly vsockDevice: Child | undefined,
    private readonly gate: VsockGate | undefined,
  ) {
    this.ended = this.watch();
  }

  /** Resolves when QEMU runs, long before the guest answers. Throws {@link VmError}; nothing is left running then. */
  static async start({ directory, plan, vsock, console, onStarted }: QemuRunOptions): Promise<QemuRun> {
    const path = (name: string) => join(directory, name);
    const program = requireProgram(programs.qemu);
    let vsockDevice: Child | undefined;
    let run: QemuRun | undefined;
    try {
      if (vsock === "device") {
        vsockDevice = await startVsockDevice(path(stateFiles.vhostUser), path(stateFiles.closedVsock));
        onStarted({ vsockDevice: vsockDevice.identity });
      }
      const device: VsockDevice =
        vsock === "device"
          ? { kind: "vhost-user", socket: path(stateFiles.vhostUser) }
          : { kind: "vhost-kernel", cid: vsock.cid };
      const target: Address =
        vsock === "device" ? { kind: "hybrid", path: path(stateFiles.vsock) } : { kind: "vsock", cid: vsock.cid };
      const qmpSockets = [path(stateFiles.qmp), path(stateFiles.ownerQmp)];
      for (const socket of qmpSockets) rmSync(socket, { force: true });
      const argv = [program, ...qemuArguments({ ...plan, vsock: device, qmpSockets })];
      const qemu = new Child("QEMU", spawnTied(argv, ["ignore", "pipe", "pipe"]));
      const gate =
        vsock === "device" ? new VsockGate(path(stateFiles.closedVsock), path(stateFiles.vsock), console) : undefined;
      run = new QemuRun(target, console, qemu, vsockDevice, gate);
      onStarted({ qemu: qemu.identity, target: formatTarget(target) });
      const problem = await run.attachMonitor(path(stateFiles.ownerQmp));
      if (problem === undefined) return run;
      // Its last words are known once it has ended.
      run.kill("it did not start");
      await run.ended;
      throw new QemuStartError(qemu.messages, problem);
    } catch (error) {
      run?.kill("it did not start");
      await run?.ended;
      vsockDevice?.kill();
      await vsockDevice?.ended;
      throw error;
    }
  }

  /** Ends the run at once, as pulling the plug does. */
  kill(reason: string): void {
    this.killReason ??= reason;
    this.qemu.kill();
  }

  /** Listens to QEMU's events until it ends. Returns why it could not, when QEMU did not come up. */
  private async attachMonitor(path: string): Promise<Error | undefined> {
    const onEvent = (event: string, data: Readonly<Record<string, unknown>>) => {
      if (event === "SHUTDOWN" && typeof data.reason === "string") this.shutdownReason = data.reason;
    };
    const connecting = Qmp.connect({ path, timeoutMs: monitorTimeoutMs, onEvent }).then(
      () => undefined,
      (error: unknown) => error as Error,
    );
    return Promise.race([connecting, this.qemu.ended.then((how) => new Error(how))]);
  }

  private async watch(): Promise<RunEnd> {
    let panicTimer: NodeJS.Timeout | undefined;
    const forget = this.console.onPanic(() => {
      panicTimer = setTimeout(() => this.qemu.kill(), panicGraceMs);
    });
    void this.vsockDevice?.ended.then((how) => this.kill(`its vsock device ended: ${how}`));
    await Promise.all([this.console.consume(this.qemu.stdout), this.qemu.ended]);
    clearTimeout(panicTimer);
    forget();
    this.gate?.close();
    const end = await this.explainEnd();
    this.vsockDevice?.kill();
    await this.vsockDevice?.ended;
    return end;
  }

  private async explainEnd(): Promise<RunEnd> {
    const how = await this.qemu.ended;
    if (this.console.panic !== undefined) return { state: "crashed", reason: this.console.panic };
    if (this.killReason !== undefined) return { state: "stopped", reason: this.killReason };
    switch (this.shutdownReason) {
      case "guest-reset":
        return { state: "rebooted", reason: "the guest rebooted" };
      case "guest-shutdown":
        return { state: "stopped", reason: "the guest powered off" };
      case "host-qmp-quit":
        return { state: "stopped", reason: "QEMU was told to quit" };
      case "host-signal":
        return { state: "stopped", reason: "QEMU was told to end by a signal" };
      default:
        return { state: "crashed", reason: this.qemu.messages === "" ? how : `${how}: ${this.qemu.messages}` };
    }
  }
}

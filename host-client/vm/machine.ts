import type { ChildProcess } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import type { Readable } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import { type Address, formatTarget, maxSocketPathBytes } from "../transport/target.ts";
import { ConsoleLog } from "./console-log.ts";
import { VmError } from "./error.ts";
import { programs, requireProgram } from "./find-program.ts";
import { identifyProcess, type ProcessIdentity } from "./process-identity.ts";
import { type QemuPlan, qemuArguments, type VsockDevice } from "./qemu-args.ts";
import { Qmp } from "./qmp.ts";
import { spawnTied } from "./spawn-tied.ts";
import { stateFiles } from "./state.ts";
import { randomCid, saysCidIsTaken, type VsockBackend } from "./vsock-backend.ts";

const vsockDeviceTimeoutMs = 5_000;
const monitorTimeoutMs = 10_000;
/** A panicking kernel writes its trace first. */
const panicGraceMs = 1_000;
const cidAttempts = 8;
const keptMessageBytes = 8 * 1024;
/** With vhost-device-vsock every VM has a device of its own, so the number only has to be a guest's. */
const deviceCid = 3;

/** How a machine ended. */
export interface MachineEnd {
  state: "stopped" | "crashed";
  /** in words, for people */
  reason: string;
}

export interface MachineOptions {
  directory: string;
  plan: Omit<QemuPlan, "vsock" | "qmpSockets">;
  vsock: VsockBackend;
  /** called when a process has started, so that it is on record before anything can go wrong */
  onStarted(facts: { qemu?: ProcessIdentity; vsockDevice?: ProcessIdentity; target?: string }): void;
}

/**
 * QEMU and what it needs: its vsock device, its console log and its monitor. Owns all of them; when QEMU ends, so do
 * the others, and {@link ended} resolves.
 */
export class Machine {
  readonly ended: Promise<MachineEnd>;
  private shutdownReason: string | undefined;
  private killReason: string | undefined;

  private constructor(
    readonly target: Address,
    readonly console: ConsoleLog,
    private readonly qemu: Child,
    private readonly vsockDevice: Child | undefined,
  ) {
    this.ended = this.watch();
  }

  /** Starts the processes. Resolves when QEMU runs, long before the guest answers. Throws {@link VmError}. */
  static async start(options: MachineOptions): Promise<Machine> {
    const path = (name: string) => join(options.directory, name);
    for (const name of [stateFiles.vsock, stateFiles.vhostUser, stateFiles.qmp, stateFiles.ownerQmp]) {
      requireSocketPath(path(name));
    }
    const qemuProgram = requireProgram(programs.qemu);
    const log = new ConsoleLog(path(stateFiles.consoleLog));
    let vsockDevice: Child | undefined;
    try {
      if (options.vsock === "device") {
        vsockDevice = await startVsockDevice(path(stateFiles.vhostUser), path(stateFiles.vsock));
        options.onStarted({ vsockDevice: vsockDevice.identity });
      }
      for (let attempt = 1; ; attempt++) {
        const cid = randomCid();
        const vsock: VsockDevice =
          vsockDevice === undefined
            ? { kind: "vhost-kernel", cid }
            : { kind: "vhost-user", socket: path(stateFiles.vhostUser) };
        const qmpSockets = [path(stateFiles.qmp), path(stateFiles.ownerQmp)];
        const argv = [qemuProgram, ...qemuArguments({ ...options.plan, vsock, qmpSockets })];
        const qemu = new Child("QEMU", spawnTied(argv, ["ignore", "pipe", "pipe"]));
        const target: Address =
          vsock.kind === "vhost-kernel"
            ? { kind: "vsock", cid: vsock.cid }
            : { kind: "hybrid", path: path(stateFiles.vsock) };
        options.onStarted({ qemu: qemu.identity, target: formatTarget(target) });
        const machine = new Machine(target, log, qemu, vsockDevice);
        const problem = await machine.attachMonitor(path(stateFiles.ownerQmp));
        if (problem === undefined) return machine;
        machine.kill("it did not start");
        await machine.qemu.ended;
        const retry = vsock.kind === "vhost-kernel" && saysCidIsTaken(qemu.messages) && attempt < cidAttempts;
        if (!retry)
          throw new VmError("start_failed", `QEMU did not start: ${qemu.messages || problem.message}`, problem);
      }
    } catch (error) {
      vsockDevice?.kill();
      log.close();
      throw error;
    }
  }

  /** Ends the machine at once, as pulling the plug does. */
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

  private async watch(): Promise<MachineEnd> {
    let panicTimer: NodeJS.Timeout | undefined;
    this.console.onPanic(() => {
      panicTimer = setTimeout(() => this.qemu.kill(), panicGraceMs);
    });
    void this.vsockDevice?.ended.then((how) => this.kill(`its vsock device ended: ${how}`));
    await Promise.all([this.console.consume(this.qemu.stdout), this.qemu.ended]);
    clearTimeout(panicTimer);
    const end = await this.explainEnd();
    this.vsockDevice?.kill();
    await this.vsockDevice?.ended;
    return end;
  }

  private async explainEnd(): Promise<MachineEnd> {
    const how = await this.qemu.ended;
    if (this.console.panic !== undefined) return { state: "crashed", reason: this.console.panic };
    if (this.killReason !== undefined) return { state: "stopped", reason: this.killReason };
    switch (this.shutdownReason) {
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

/** A tied child with its identity, its last words on standard error, and its end. */
class Child {
  readonly identity: ProcessIdentity;
  /** resolves with how it ended, in words, when its streams are closed too */
  readonly ended: Promise<string>;
  private kept = "";

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

async function startVsockDevice(vhostUserSocket: string, hybridSocket: string): Promise<Child> {
  const program = requireProgram(programs.vhostDeviceVsock);
  const settings = `guest-cid=${deviceCid},socket=${vhostUserSocket},uds-path=${hybridSocket}`;
  const device = new Child("vhost-device-vsock", spawnTied([program, "--vm", settings], ["ignore", "ignore", "pipe"]));
  const deadline = performance.now() + vsockDeviceTimeoutMs;
  let end: string | undefined;
  void device.ended.then((how) => {
    end = how;
  });
  while (!existsSync(vhostUserSocket)) {
    if (end !== undefined) throw new VmError("start_failed", `${end}: ${device.messages || "it said nothing"}`);
    if (performance.now() > deadline) {
      device.kill();
      throw new VmError("start_failed", `vhost-device-vsock made no socket ${vhostUserSocket}: ${device.messages}`);
    }
    await sleep(5);
  }
  return device;
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

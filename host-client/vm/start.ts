import { randomUUID } from "node:crypto";
import { writeFile } from "node:fs/promises";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { kernelCommandLine } from "#image/command-line.ts";
import type { Image } from "#image/manifest.ts";
import { type BootConfig, encodeBootConfig } from "#protocol/boot-config.ts";
import { isVmName, vmNameRule } from "../transport/target.ts";
import { type Accelerator, chooseAccelerator, probeAccelerator } from "./accelerator.ts";
import { claimName } from "./claim.ts";
import { quoteConsole } from "./console-log.ts";
import { VmError } from "./error.ts";
import { locateImage } from "./locate-image.ts";
import { Machine, type MachineEnd } from "./machine.ts";
import { atProcessExit } from "./process-exit.ts";
import { hostBootId, identifyProcess } from "./process-identity.ts";
import type { Disk } from "./qemu-args.ts";
import { prepareSessionDisk, type SessionDiskOptions } from "./session-disk.ts";
import { stateFiles, type VmRecord, writeVmRecord } from "./state.ts";
import { openStateRoot } from "./state-root.ts";
import { recordEnd, Vm } from "./vm.ts";
import { generateVmName } from "./vm-name.ts";
import { chooseVsockBackend } from "./vsock-backend.ts";
import { NoAnswer, waitForGuest } from "./wait-for-guest.ts";

const defaultMemoryMib = 512;
const defaultTimeoutMs = 60_000;
const minMemoryMib = 64;
const maxMemoryMib = 1024 * 1024;
const maxCpus = 255;

export interface StartVmOptions {
  /** image directory; `$VMAPP_IMAGE`, or the one beside the executable, when absent */
  image?: string;
  /** 1 to 63 of a–z, 0–9 and `-`, also the guest's host name; made up when absent */
  name?: string;
  /** memory of the guest in MiB; 512 when absent */
  memoryMib?: number;
  /** virtual processors; as many as the host has, at most 2, when absent */
  cpus?: number;
  /** `auto`, the default: KVM where it works, else software emulation */
  accel?: "auto" | Accelerator;
  /** disk that keeps the guest's changes; without it they live in its memory */
  sessionDisk?: SessionDiskOptions;
  /**
   * what a console's `snapshot` answered: the session starts with these changes. A session disk takes them once and is
   * then as its session left it
   */
  snapshot?: Uint8Array;
  /** `user`: QEMU's user-mode network; `none` is the default */
  network?: "none" | "user";
  /** settings of this boot, see `#protocol/boot-config.ts`; the host name is the VM's name unless given */
  config?: BootConfig;
  /** further words of the kernel's command line */
  kernelArguments?: readonly string[];
  /** remove the state directory, with the console log and a disk made in it, when the VM ends; true when absent */
  remove?: boolean;
  /** recorded for `vmapp list`: the owner is a background process */
  detached?: boolean;
  /** deadline for the guest's first answer, in milliseconds; 60 000 when absent */
  timeoutMs?: number;
  /** gives up the start; a VM that runs is not affected */
  signal?: AbortSignal;
  /** one line for each thing that is waited for */
  onProgress?: (line: string) => void;
}

/**
 * Starts a VM and waits until its guest answers. This process owns it. When it does not come up, nothing is left
 * running. Throws {@link VmError}; the message of a guest that failed quotes its console.
 */
export async function startVm(options: StartVmOptions = {}): Promise<Vm> {
  const settings = resolveSettings(options);
  options.signal?.throwIfAborted();
  const image = await locateImage(options.image);
  const commandLine = buildCommandLine(image, options, settings.name);
  const accelerator = chooseAccelerator(options.accel ?? "auto", probeAccelerator());
  const owner = identifyProcess(process.pid);
  if (owner === undefined) throw new VmError("start_failed", "cannot read /proc/self/stat: is /proc mounted?");

  const record: VmRecord = {
    format: 1,
    name: settings.name,
    id: randomUUID(),
    state: "starting",
    created: new Date().toISOString(),
    bootId: hostBootId(),
    owner,
    image: image.directory,
    accelerator,
    memoryMib: settings.memoryMib,
    cpus: settings.cpus,
    detached: options.detached ?? false,
    remove: options.remove ?? true,
  };
  const directory = await claimName(openStateRoot(), record);
  let machine: Machine;
  const startedAt = performance.now();
  try {
    machine = await Machine.start({
      directory,
      vsock: chooseVsockBackend(),
      plan: {
        name: settings.name,
        accelerator,
        memoryMib: settings.memoryMib,
        cpus: settings.cpus,
        kernel: image.paths.kernel,
        initramfs: image.paths.initramfs,
        commandLine,
        disks: await listDisks(image, options, directory),
        network: options.network ?? "none",
      },
      onStarted: (facts) => {
        Object.assign(record, facts);
        writeVmRecord(directory, record);
      },
    });
  } catch (error) {
    recordEnd(directory, record, { state: "crashed", reason: (error as Error).message });
    throw error;
  }
  return bringUp({ machine, record, directory, startedAt, options });
}

interface StartedMachine {
  machine: Machine;
  record: VmRecord;
  directory: string;
  startedAt: number;
  options: StartVmOptions;
}

/** Waits for the guest of a machine that runs. Ends the machine when the guest does not come up. */
async function bringUp({ machine, record, directory, startedAt, options }: StartedMachine): Promise<Vm> {
  const { name } = record;
  const timeoutMs = options.timeoutMs ?? defaultTimeoutMs;
  // Its owner's end is the VM's end, which the owner can still put down if it is not killed.
  const forget = atProcessExit(() => recordEnd(directory, record, { state: "stopped", reason: "its owner ended" }));
  const exited = machine.ended.then((end) => {
    forget();
    recordEnd(directory, record, end);
    return end;
  });
  const giveUp = new AbortController();
  const signal = options.signal === undefined ? giveUp.signal : AbortSignal.any([options.signal, giveUp.signal]);
  void exited.then(() => giveUp.abort());
  machine.console.onPanic(() => giveUp.abort());

  options.onProgress?.(`waiting for the guest of ${name} (${record.accelerator}, at most ${timeoutMs / 1000} s)`);
  try {
    const { hello } = await waitForGuest({ target: machine.target, timeoutMs, signal });
    const readyAfterMs = performance.now() - startedAt;
    record.state = "running";
    writeVmRecord(directory, record);
    return new Vm(machine, record, directory, exited, hello, readyAfterMs);
  } catch (error) {
    // The end counts only if it is not of our own making.
    const endedByItself = giveUp.signal.aborted;
    if (!endedByItself) machine.kill("it did not come up");
    const end = await exited;
    const ended = endedByItself ? end : undefined;
    throw explainFailure({ name, error, ended, tail: machine.console.tail() });
  }
}

function explainFailure(failure: {
  name: string;
  error: unknown;
  ended: MachineEnd | undefined;
  tail: readonly string[];
}): VmError {
  const { name, error, ended, tail } = failure;
  if (ended !== undefined) {
    const message = `the VM ${name} ended before its guest answered: ${ended.reason}`;
    return new VmError(
      ended.state === "crashed" ? "crashed" : "start_failed",
      quoteConsole(message, tail, name),
      error,
    );
  }
  if (error instanceof NoAnswer) {
    return new VmError("start_timeout", quoteConsole(`the guest of ${name}: ${error.message}`, tail, name), error);
  }
  return new VmError("aborted", `the start of ${name} was given up`, error);
}

function resolveSettings(options: StartVmOptions): { name: string; memoryMib: number; cpus: number } {
  const name = options.name ?? generateVmName();
  if (!isVmName(name)) {
    throw new VmError("bad_option", `"${name}" is not a name for a VM: ${vmNameRule}`);
  }
  const memoryMib = options.memoryMib ?? defaultMemoryMib;
  if (!Number.isInteger(memoryMib) || memoryMib < minMemoryMib || memoryMib > maxMemoryMib) {
    throw new VmError("bad_option", `a VM has ${minMemoryMib} to ${maxMemoryMib} MiB of memory, not ${memoryMib}`);
  }
  const cpus = options.cpus ?? Math.min(2, availableParallelism());
  if (!Number.isInteger(cpus) || cpus < 1 || cpus > maxCpus) {
    throw new VmError("bad_option", `a VM has 1 to ${maxCpus} processors, not ${cpus}`);
  }
  return { name, memoryMib, cpus };
}

function buildCommandLine(image: Image, options: StartVmOptions, name: string): string {
  try {
    return kernelCommandLine({
      kernelParameters: image.manifest.kernelParameters,
      sessionDisk: options.sessionDisk !== undefined,
      snapshotDisk: options.snapshot !== undefined,
      extra: [...(options.kernelArguments ?? []), encodeBootConfig({ hostname: name, ...options.config })],
    });
  } catch (cause) {
    throw new VmError("bad_option", (cause as Error).message, cause);
  }
}

async function listDisks(
  image: Image,
  { sessionDisk, snapshot }: StartVmOptions,
  directory: string,
): Promise<readonly Disk[]> {
  const disks: Disk[] = [
    { serial: "vmapp-base", path: image.paths.base, readOnly: true },
    { serial: "vmapp-runtime", path: image.paths.runtime, readOnly: true },
  ];
  if (sessionDisk !== undefined) {
    const path = await prepareSessionDisk(sessionDisk, join(directory, stateFiles.sessionDisk));
    disks.push({ serial: "vmapp-session", path, readOnly: false });
  }
  if (snapshot !== undefined) {
    const path = join(directory, stateFiles.snapshot);
    await writeFile(path, snapshot, { mode: 0o600 });
    disks.push({ serial: "vmapp-snapshot", path, readOnly: true });
  }
  return disks;
}

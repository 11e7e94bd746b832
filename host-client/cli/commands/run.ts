import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { Command, Option } from "commander";
import type { Accelerator } from "../../vm/accelerator.ts";
import { quoteConsole } from "../../vm/console-log.ts";
import { VmError } from "../../vm/error.ts";
import { type StartVmOptions, startVm } from "../../vm/start.ts";
import { stateFiles } from "../../vm/state.ts";
import { describeStop } from "../../vm/stop.ts";
import type { Vm, VmExit } from "../../vm/vm.ts";
import { readBootTimes } from "../boot-times.ts";
import { startDetached } from "../detach.ts";
import { parseCount, parseDisk, parseMebibytes, parseSeconds } from "../option-values.ts";
import { note, printLine } from "../output.ts";
import { runCommand } from "../run-command.ts";
import { isAtTerminal, runOnTerminal } from "../run-terminal.ts";
import { onStopSignal, type StopSignal, signalStatus } from "../stop-signals.ts";

const defaultTimeoutMs = 60_000;
/** A guest that powers off cuts its connections a moment before QEMU ends. */
const goingDownMs = 10_000;

interface RunOptions {
  detach?: true;
  name?: string;
  image?: string;
  memory?: number;
  cpus?: number;
  rm?: true;
  net?: "none" | "user";
  disk?: { path?: string; sizeMib?: number };
  accel?: "auto" | Accelerator;
  /** milliseconds */
  timeout?: number;
  interactive?: true;
}

export function runCliCommand(): Command {
  return new Command("run")
    .description("start a VM")
    .usage("[options] [-- COMMAND [ARGUMENT...]]")
    .argument("[command...]", "run this in the guest, then power off")
    .option("-d, --detach", "leave the VM running in the background, once its guest answers")
    .option("-n, --name <name>", "name of the VM, and of its guest; made up when not given")
    .option("--image <dir>", "image to boot; default: $VMAPP_IMAGE, or the one that came with vmapp")
    .option("-m, --memory <size>", "memory of the guest: 512, 512M, 2G (default: 512M)", parseMebibytes)
    .option("-c, --cpus <count>", "virtual processors (default: the host's, at most 2)", parseCount)
    .option("--rm", "remove the VM's directory at the end, with console log and session disk")
    .addOption(new Option("--net <kind>", "network of the guest").choices(["none", "user"]).default("none"))
    .option(
      "--disk <disk>",
      "keep changes on a disk: SIZE (as 1G, goes with the VM), PATH, or PATH:SIZE to have it made",
      parseDisk,
    )
    .addOption(new Option("--accel <kind>", "how the processor is run").choices(["auto", "kvm", "tcg"]).default("auto"))
    .option("--timeout <seconds>", "how long the guest may take to answer (default: 60)", parseSeconds)
    .option("-i, --interactive", "pass standard input on to the command")
    .passThroughOptions()
    .addHelpText(
      "after",
      `
In the foreground the VM lives as long as vmapp does. On a terminal it ends at a prompt inside the guest; leaving the
shell powers the VM off. Without a terminal and without a command it boots, runs "uname -a", prints how long the boot
took and powers off. With a command the exit status is the command's, as with "vmapp exec".

A VM that was given no name leaves nothing behind. One with a name keeps its console log for "vmapp logs", until the
name is used again; --rm removes it at the end.

Examples:
  vmapp run                                  a shell in a fresh guest
  vmapp run -- sh -c 'cat /proc/cpuinfo'     one command in a fresh guest
  vmapp run --name a --detach                a guest that stays; then: vmapp exec a -- uname -a
  vmapp run --disk work.img:4G               changes are kept in work.img`,
    )
    .action(async (argv: string[], options: RunOptions) => {
      const run = options.detach ? runDetached : runForeground;
      process.exitCode = await run(argv, options);
    });
}

function startOptions(options: RunOptions): StartVmOptions & { timeoutMs: number } {
  const { name, image, memory, cpus, net, disk, accel, timeout } = options;
  return {
    ...(name !== undefined && { name }),
    ...(image !== undefined && { image }),
    ...(memory !== undefined && { memoryMib: memory }),
    ...(cpus !== undefined && { cpus }),
    ...(net !== undefined && { network: net }),
    ...(disk !== undefined && { sessionDisk: disk }),
    ...(accel !== undefined && { accel }),
    remove: options.rm ?? (name === undefined && !options.detach),
    timeoutMs: timeout ?? defaultTimeoutMs,
  };
}

async function runDetached(argv: readonly string[], options: RunOptions): Promise<number> {
  if (argv.length > 0) {
    throw new VmError("bad_option", "--detach takes no command; start the VM, then use: vmapp exec NAME -- COMMAND");
  }
  const givenUp = new AbortController();
  let stoppedBy: StopSignal | undefined;
  const undo = onStopSignal((signal) => {
    stoppedBy ??= signal;
    givenUp.abort();
  });
  try {
    const { name, readyAfterMs } = await startDetached(startOptions(options), givenUp.signal);
    note(`${name} answers after ${(readyAfterMs / 1000).toFixed(1)} s`);
    await printLine(name);
    return 0;
  } catch (error) {
    if (stoppedBy === undefined) throw error;
    return signalStatus(stoppedBy);
  } finally {
    undo();
  }
}

async function runForeground(argv: readonly string[], options: RunOptions): Promise<number> {
  const startGivenUp = new AbortController();
  let stoppedBy: StopSignal | undefined;
  let vm: Vm | undefined;
  const undo = onStopSignal((signal) => {
    stoppedBy ??= signal;
    if (vm === undefined) startGivenUp.abort();
    else void vm.stop();
  });
  try {
    vm = await startVm({ ...startOptions(options), signal: startGivenUp.signal, onProgress: note });
    const status = await useUntilItEnds(vm, argv, options);
    note(`${vm.name}: ${await stopAndDescribe(vm)}`);
    return stoppedBy === undefined ? status : signalStatus(stoppedBy);
  } catch (error) {
    await vm?.stop();
    if (stoppedBy === undefined) throw error;
    if (vm !== undefined) note(`${vm.name}: stopped because of ${stoppedBy}: ${await stopAndDescribe(vm)}`);
    return signalStatus(stoppedBy);
  } finally {
    undo();
  }
}

async function stopAndDescribe(vm: Vm): Promise<string> {
  const result = await vm.stop();
  return result.step === "none" ? (await vm.exited).reason : describeStop(result);
}

/** Uses the VM, and makes sense of one that ends meanwhile. */
async function useUntilItEnds(vm: Vm, argv: readonly string[], options: RunOptions): Promise<number> {
  const used = use(vm, argv, options);
  const unfinished = argv.length > 0 ? `"${argv[0]}"` : undefined;
  try {
    return await Promise.race([used, vm.exited.then((end) => afterEnd(vm, end, unfinished))]);
  } catch (error) {
    // The connection goes first when a guest goes down.
    const end = await Promise.race([vm.exited, sleep(goingDownMs, undefined, { ref: false })]);
    return end === undefined ? Promise.reject(error) : afterEnd(vm, end, unfinished);
  }
}

async function use(vm: Vm, argv: readonly string[], options: RunOptions): Promise<number> {
  if (argv.length > 0) return runCommand(vm.guest, { argv }, { stdin: options.interactive ?? false });
  if (isAtTerminal()) return runOnTerminal(vm.guest, {});
  const status = await runCommand(vm.guest, { argv: ["uname", "-a"] }, { stdin: false });
  await printLine(describeBoot(vm));
  return status;
}

function describeBoot(vm: Vm): string {
  const times = readBootTimes(join(vm.directory, stateFiles.consoleLog));
  const total = `the guest answered ${seconds(vm.readyAfterMs / 1000)} after the start`;
  if (times === undefined) return `boot: ${total}`;
  const { kernel, stage0, services } = times;
  return `boot: kernel ${seconds(kernel)}, stage 0 ${seconds(stage0)}, services ${seconds(services)}; ${total}`;
}

function seconds(value: number): string {
  return `${value.toFixed(2)} s`;
}

/** A guest may power itself off, as by `poweroff` at its prompt, but not before a command has ended. */
function afterEnd(vm: Vm, end: VmExit, unfinished: string | undefined): number {
  if (end.state === "stopped" && unfinished === undefined) return 0;
  const before = unfinished === undefined ? "" : ` before ${unfinished} did`;
  const message = quoteConsole(`the VM ${vm.name} ended${before}: ${end.reason}`, vm.consoleTail(), vm.name);
  throw new VmError("crashed", message);
}

import { renameSync, writeSync } from "node:fs";
import { join } from "node:path";
import { Command } from "commander";
import { startVm } from "../../vm/start.ts";
import { stateFiles } from "../../vm/state.ts";
import { describeStop } from "../../vm/stop.ts";
import type { Vm } from "../../vm/vm.ts";
import { type OwnerOrder, ownerCommandName, type Report, reportFd } from "../detach.ts";
import { describeFailure, failureStatus } from "../failure.ts";
import { standardOutput } from "../output.ts";
import { onStopSignal } from "../stop-signals.ts";

/** Runs one VM as a background process. Started by `vmapp run --detach` alone; its output is the owner's log. */
export function ownVmCommand(): Command {
  return new Command(ownerCommandName).description("own a VM in the background").action(async () => {
    const order = JSON.parse(await readStandardInput()) as OwnerOrder;
    const startGivenUp = new AbortController();
    let vm: Vm | undefined;
    onStopSignal((signal) => {
      log(`${signal} came`);
      if (vm === undefined) startGivenUp.abort();
      else stop(vm);
    });
    try {
      vm = await startVm({ ...order.options, detached: true, signal: startGivenUp.signal, onProgress: log });
    } catch (error) {
      report({ ok: false, message: describeFailure(error) });
      process.exitCode = failureStatus;
      return;
    }
    moveLog(order.logPath, vm);
    log(`${vm.name} answers after ${(vm.readyAfterMs / 1000).toFixed(1)} s`);
    report({ ok: true, name: vm.name, readyAfterMs: vm.readyAfterMs });
    const end = await vm.exited;
    log(`${vm.name} ended (${end.state}): ${end.reason}`);
  });
}

async function readStandardInput(): Promise<string> {
  let text = "";
  for await (const chunk of process.stdin) text += String(chunk);
  return text;
}

function report(message: Report): void {
  // Synchronously: whoever waits for this line may be gone, and the owner goes on.
  try {
    writeSync(reportFd, `${JSON.stringify(message)}\n`);
  } catch (error) {
    log(`nobody took the report: ${(error as Error).message}`);
  }
}

function moveLog(path: string, vm: Vm): void {
  try {
    renameSync(path, join(vm.directory, stateFiles.ownerLog));
  } catch (error) {
    log(`the log stays where it is: ${(error as Error).message}`);
  }
}

function stop(vm: Vm): void {
  vm.stop().then(
    (result) => log(`stopped ${vm.name}: ${describeStop(result)}`),
    (error: unknown) => log(describeFailure(error)),
  );
}

function log(line: string): void {
  standardOutput().write(`${new Date().toISOString()} ${line}\n`);
}

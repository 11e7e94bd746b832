import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { parseTarget } from "../transport/target.ts";
import { removeLeftover } from "./claim.ts";
import { VmError } from "./error.ts";
import type { KnownVm } from "./resolve.ts";
import { currentState, readVmRecord, stateFiles, type VmRecord } from "./state.ts";
import { describeStop, stopMachine } from "./stop.ts";

/** The owner notices QEMU's end, ends the helpers and writes the record. */
const ownerTimeoutMs = 10_000;

/**
 * Stops a VM that some other process owns, and waits until its owner has tidied up. What a dead owner left is cleaned.
 * Returns what was done, in words.
 */
export async function stopKnownVm(vm: KnownVm, { remove }: { remove: boolean }): Promise<string> {
  const { record, directory } = vm;
  const state = currentState(record);
  let done: string;
  if (state === "dead") {
    await removeLeftover(dirname(directory), record.name);
    return "it was not running any more: its owner is gone; cleaned up what it left";
  }
  if (state === "stopped" || state === "crashed") {
    done = `it was not running (${state}: ${record.ended ?? "no reason recorded"})`;
  } else {
    if (record.qemu === undefined || record.target === undefined) {
      throw new VmError("not_running", `the VM ${record.name} is only just starting; try again in a moment`);
    }
    const target = parseTarget(record.target);
    if (target.kind === "name") throw new VmError("not_running", `the record of ${record.name} names no address`);
    const result = await stopMachine({ target, qmpSocket: join(directory, stateFiles.qmp), qemu: record.qemu });
    done = describeStop(result);
    const again = await waitForOwner(vm);
    if (again !== undefined) return stopKnownVm({ record: again, directory }, { remove });
  }
  if (remove && existsSync(directory)) await removeLeftover(dirname(directory), record.name);
  return done;
}

/** Returns the record of a VM that runs again: its guest rebooted just when it was to be stopped. */
async function waitForOwner({ record, directory }: KnownVm): Promise<VmRecord | undefined> {
  const deadline = performance.now() + ownerTimeoutMs;
  while (performance.now() < deadline) {
    const now = readVmRecord(directory);
    if (now === undefined || now.id !== record.id) return undefined;
    const state = currentState(now);
    if (state !== "running" && state !== "starting") return undefined;
    if (now.qemu?.pid !== record.qemu?.pid) return now;
    await sleep(20);
  }
  return undefined;
}

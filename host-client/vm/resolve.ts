import { join } from "node:path";
import { type Address, parseTarget } from "../transport/target.ts";
import { VmError } from "./error.ts";
import { currentState, listVmRecords, readVmRecord, stateFiles, type VmRecord } from "./state.ts";
import { openStateRoot } from "./state-root.ts";

/** A VM that this host knows by name. */
export interface KnownVm {
  record: VmRecord;
  /** state directory */
  directory: string;
}

/** Where a target leads. */
export interface ResolvedTarget {
  address: Address;
  /** set when the target was the name of a VM of this host */
  vm?: KnownVm;
}

/** The VM of that name, running or not. Throws {@link VmError} `no_such_vm`, with the names there are. */
export function findVm(name: string): KnownVm {
  const root = openStateRoot();
  const directory = join(root, name);
  const record = readVmRecord(directory);
  if (record?.name === name) return { record, directory };
  const known = listVmRecords(root).map((other) => other.name);
  const list = known.length === 0 ? "there are none" : `there are: ${known.join(", ")}`;
  throw new VmError("no_such_vm", `there is no VM named ${name} (${list}); start one with: vmapp run --name ${name}`);
}

/** Reads a target and looks its name up. Throws `TransportError` `bad_target`, or {@link VmError}. */
export function resolveTarget(text: string): ResolvedTarget {
  const target = parseTarget(text);
  if (target.kind !== "name") return { address: target };
  const vm = findVm(target.name);
  const { record } = vm;
  const state = currentState(record);
  if (state === "starting") throw new VmError("not_running", `the VM ${target.name} is still starting`);
  if (state !== "running" || record.target === undefined) {
    const why = record.ended === undefined ? (state === "dead" ? "its owner is gone" : "") : record.ended;
    const log = `its console: vmapp logs ${target.name}`;
    throw new VmError("not_running", `the VM ${target.name} is not running (${state}${why && `: ${why}`}); ${log}`);
  }
  const address = parseTarget(record.target);
  if (address.kind === "name") throw new VmError("not_running", `the record of ${target.name} names no address`);
  return { address, vm };
}

/** Path of a known VM's console log. */
export function consoleLogPath({ directory }: KnownVm): string {
  return join(directory, stateFiles.consoleLog);
}

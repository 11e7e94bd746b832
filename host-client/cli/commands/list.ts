import { Command } from "commander";
import { currentState, listVmRecords, type VmRecord } from "../../vm/state.ts";
import { openStateRoot } from "../../vm/state-root.ts";
import { printLine } from "../output.ts";
import { formatTable } from "../table.ts";

export function listCommand(): Command {
  return new Command("list")
    .alias("ps")
    .description("list the VMs of this user, running and ended")
    .option("--json", "print one JSON array for machines")
    .addHelpText(
      "after",
      `
States: starting, running, stopped, crashed (its kernel panicked or QEMU ended by itself), dead (the process that
owned it is gone; "vmapp stop NAME" or a new "vmapp run --name NAME" cleans up).`,
    )
    .action(async (options: { json?: true }) => {
      const vms = listVmRecords(openStateRoot());
      if (options.json) await printLine(JSON.stringify(vms.map(describe), null, 2));
      else await printLine(table(vms));
    });
}

function describe(record: VmRecord) {
  return {
    name: record.name,
    state: currentState(record),
    target: record.target ?? null,
    accelerator: record.accelerator ?? null,
    memoryMib: record.memoryMib,
    cpus: record.cpus,
    image: record.image,
    created: record.created,
    detached: record.detached,
    ownerPid: record.owner.pid,
    qemuPid: record.qemu?.pid ?? null,
    ended: record.ended ?? null,
  };
}

function table(records: readonly VmRecord[]): string {
  const rows = records.map((record) => [
    record.name,
    currentState(record),
    `${record.memoryMib} MiB`,
    String(record.cpus),
    record.accelerator ?? "",
    record.created.slice(0, 19).replace("T", " "),
    record.ended?.split("\n")[0] ?? "",
  ]);
  return formatTable(["NAME", "STATE", "MEMORY", "CPUS", "ACCEL", "CREATED (UTC)", "ENDED"], rows);
}

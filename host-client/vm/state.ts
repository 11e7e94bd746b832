import { lstatSync, readdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import * as z from "zod/mini";
import { isVmName } from "../transport/target.ts";
import { hostBootId, isProcessAlive, processIdentitySchema } from "./process-identity.ts";

/** `vm.json`: what other processes may know of a VM. Written by its owner alone. */
const vmRecordSchema = z.object({
  format: z.literal(1),
  name: z.string().check(z.refine(isVmName)),
  /** tells this VM from an earlier one of the same name */
  id: z.uuid(),
  state: z.enum(["starting", "running", "stopped", "crashed"]),
  /** ISO 8601 */
  created: z.string(),
  /** the host's boot in which the process identities hold */
  bootId: z.string(),
  owner: processIdentitySchema,
  qemu: z.optional(processIdentitySchema),
  vsockDevice: z.optional(processIdentitySchema),
  /** image directory */
  image: z.string(),
  /** where the guest's ports are dialled, as a target */
  target: z.optional(z.string()),
  accelerator: z.optional(z.enum(["kvm", "tcg"])),
  memoryMib: z.int().check(z.positive()),
  cpus: z.int().check(z.positive()),
  detached: z.boolean(),
  /** the directory goes when the VM ends */
  remove: z.boolean(),
  /** how the VM ended, in words */
  ended: z.optional(z.string()),
});
export type VmRecord = z.infer<typeof vmRecordSchema>;

/** Names of the files in a VM's state directory. */
export const stateFiles = {
  record: "vm.json",
  consoleLog: "console.log",
  ownerLog: "owner.log",
  /** hybrid socket of the guest's ports */
  vsock: "vm.vsock",
  /** the same socket until the guest's agent listens: see `VsockGate` */
  closedVsock: "boot.vsock",
  /** between QEMU and vhost-device-vsock */
  vhostUser: "vhost.sock",
  /** QMP for any process of the user */
  qmp: "qmp.sock",
  /** QMP for the owner, which listens to events on it for as long as the VM lives */
  ownerQmp: "owner.sock",
  sessionDisk: "session.img",
  /** the layer that the session starts from */
  snapshot: "snapshot.tar",
} as const;

export function writeVmRecord(directory: string, record: VmRecord): void {
  const temporary = join(directory, `.${stateFiles.record}.new`);
  writeFileSync(temporary, `${JSON.stringify(record, null, 2)}\n`, { mode: 0o600 });
  renameSync(temporary, join(directory, stateFiles.record));
}

/** The record, or `undefined` where there is none that can be trusted: missing, damaged, a link, not ours. */
export function readVmRecord(directory: string): VmRecord | undefined {
  try {
    const path = join(directory, stateFiles.record);
    const stat = lstatSync(path);
    if (!stat.isFile() || stat.uid !== process.getuid?.()) return undefined;
    return vmRecordSchema.parse(JSON.parse(readFileSync(path, "utf8")));
  } catch {
    return undefined;
  }
}

/** Whether the process that answers for this VM still lives. */
export function isOwnerAlive(record: VmRecord): boolean {
  return record.bootId === hostBootId() && isProcessAlive(record.owner);
}

/** `dead`: the owner ended without saying how. */
export type VmState = VmRecord["state"] | "dead";

/** The state now: what the owner wrote, unless the owner is gone. */
export function currentState(record: VmRecord): VmState {
  const over = record.state === "stopped" || record.state === "crashed";
  return over || isOwnerAlive(record) ? record.state : "dead";
}

/** Every VM under the state root, by name. */
export function listVmRecords(root: string): VmRecord[] {
  const records: VmRecord[] = [];
  for (const name of readdirSync(root).sort()) {
    if (!isVmName(name)) continue;
    const record = readVmRecord(join(root, name));
    if (record?.name === name) records.push(record);
  }
  return records;
}

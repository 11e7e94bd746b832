import { randomInt } from "node:crypto";
import { closeSync, openSync } from "node:fs";
import { findProgram, programs } from "./find-program.ts";

/** How a VM gets its vsock. */
export type VsockBackend =
  /** the kernel's vhost-vsock; the guest is dialled by its CID */
  | "kernel"
  /** Debian's vhost-device-vsock; the guest is dialled through a hybrid socket */
  | "device";

const firstRandomCid = 0x1000;
const lastRandomCid = 0x7fff_ffff;

/** Why /dev/vhost-vsock does not open for reading and writing; `undefined` when it does. */
export function vhostVsockError(): string | undefined {
  try {
    closeSync(openSync("/dev/vhost-vsock", "r+"));
    return undefined;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code ?? String(error);
  }
}

/**
 * The kernel's where it opens and this runtime can dial it (AF_VSOCK needs Bun), else vhost-device-vsock. On Node with
 * nothing but the kernel's, the kernel's: the VM starts, and dialling says what is missing.
 */
export function chooseVsockBackend(): VsockBackend {
  if (vhostVsockError() !== undefined) return "device";
  if (process.versions.bun !== undefined) return "kernel";
  return findProgram(programs.vhostDeviceVsock) === undefined ? "kernel" : "device";
}

/** A CID that is probably free; QEMU says when it is not. */
export function randomCid(): number {
  return randomInt(firstRandomCid, lastRandomCid);
}

/** Whether QEMU ended because another guest has the CID. */
export function saysCidIsTaken(qemuMessages: string): boolean {
  return /unable to set guest cid: Address already in use/i.test(qemuMessages);
}

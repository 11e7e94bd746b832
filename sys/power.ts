/** What only the machine's first process asks of the kernel: to stop, and who hears Ctrl-Alt-Del. */

import { SysError } from "./errors.ts";
import { check, Errno, errno, libc } from "./libc.ts";

/** `halt` stops the processors and leaves the machine on. */
export type PowerAction = "reboot" | "halt" | "power-off";

const commands: Record<PowerAction, number> = {
  reboot: 0x01234567,
  halt: 0xcdef0123 | 0,
  "power-off": 0x4321fedc,
};
const RB_DISABLE_CAD = 0;

/** `reboot(2)`: at once, nothing is written back. Returns only on failure, which it throws: SysError (EPERM, EINVAL). */
export function rebootMachine(action: PowerAction): void {
  check("reboot", libc.reboot(commands[action]), action);
}

/**
 * Has the kernel send Ctrl-Alt-Del to PID 1 as SIGINT instead of rebooting at once. Returns false where this process is
 * not the machine's first: inside a PID namespace the kernel answers EINVAL, or EPERM without CAP_SYS_BOOT.
 */
export function deliverCtrlAltDelAsSignal(): boolean {
  if (libc.reboot(RB_DISABLE_CAD) === 0) return true;
  const number = errno();
  if (number === Errno.EINVAL || number === Errno.EPERM) return false;
  throw new SysError("reboot", number, "Ctrl-Alt-Del");
}

/** `sync(2)`: writes back every filesystem; blocks until all have answered. */
export function syncFilesystems(): void {
  libc.sync();
}

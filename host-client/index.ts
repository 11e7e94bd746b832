/** The public library: start VMs, reach guests, run commands in them. Runs on Bun and on Node 20 or later. */
export { ControlError, type ControlErrorCode } from "./clients/control/error.ts";
export { ShellError, type ShellErrorCode } from "./clients/shell/error.ts";
export type { ShellExit, ShellSession } from "./clients/shell/session.ts";
export { ExecError, type ExecErrorCode, type ExecOptions, type ExecResult } from "./exec.ts";
export { GuestFiles, type TransferOptions, type TransferResult } from "./files.ts";
export { Guest } from "./guest.ts";
export type { Connection } from "./transport/connection.ts";
export { type DialOptions, dial } from "./transport/dial.ts";
export { TransportError, type TransportErrorCode } from "./transport/error.ts";
export { type Address, formatTarget, parseTarget, type Target } from "./transport/target.ts";
export { VmError, type VmErrorCode } from "./vm/error.ts";
export type { SessionDiskOptions } from "./vm/session-disk.ts";
export { type StartVmOptions, startVm } from "./vm/start.ts";
export type { StopResult } from "./vm/stop.ts";
export type { Vm, VmExit } from "./vm/vm.ts";

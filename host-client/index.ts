/** The public library: start VMs, reach guests, run commands in them. Runs on Bun and on Node 20 or later. */

export { BridgeError, type BridgeErrorCode, OpError } from "./clients/bridge/error.ts";
export type { InspectedMessage } from "./clients/bridge/inspector.ts";
export { defaultPermissions, type OpName, type Ops, type WindowParams } from "./clients/bridge/ops.ts";
export type { AppOptions, AppSession } from "./clients/bridge/session.ts";
export type { AppEvents, CallOptions } from "./clients/bridge/session-events.ts";
export { JoinedSession, shareSession } from "./clients/bridge/shared-session.ts";
export type { AppState } from "./clients/bridge/upkeep.ts";
export { Console, type ConsoleOptions, type ConsoleRun, type ConsoleServer } from "./clients/console/console.ts";
export { ConsoleBrokenError, ConsoleRefusedError } from "./clients/console/error.ts";
export { Images } from "./clients/console/images.ts";
export type { MountOption } from "./clients/console/mount-option.ts";
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

/**
 * - `bad_option`: a value the caller gave cannot be used
 * - `missing_tool`: a program this host must have is not there; the message has the command that installs it
 * - `image`: the image directory is missing or damaged
 * - `state_directory`: the place for running VMs is missing or not private
 * - `name_taken`: a VM of that name runs
 * - `no_such_vm`: no VM of that name is known
 * - `not_running`: the VM is known and does not run
 * - `start_failed`: QEMU or a helper of it ended before the guest answered
 * - `start_timeout`: the guest did not answer in time
 * - `crashed`: the guest's kernel panicked, or QEMU ended by itself
 * - `unreachable`: the VM runs and its guest does not answer
 * - `aborted`: the caller's signal fired
 */
export type VmErrorCode =
  | "bad_option"
  | "missing_tool"
  | "image"
  | "state_directory"
  | "name_taken"
  | "no_such_vm"
  | "not_running"
  | "start_failed"
  | "start_timeout"
  | "crashed"
  | "unreachable"
  | "aborted";

/** What goes wrong with a VM, as opposed to the connection to one. The message is complete: it may have several lines. */
export class VmError extends Error {
  override readonly name = "VmError";

  constructor(
    readonly code: VmErrorCode,
    message: string,
    cause?: unknown,
  ) {
    super(message, cause === undefined ? undefined : { cause });
  }
}

import type { Address } from "./transport/target.ts";
import { readConsoleTail } from "./vm/console-log.ts";
import { consoleLogPath, resolveTarget } from "./vm/resolve.ts";

/** What is known of the VM around a guest, when it is one of this host's. */
export interface GuestOrigin {
  name: string;
  /** the last lines of its console, for errors */
  consoleTail(): string[];
}

/**
 * Where `NAME`, `vsock:CID`, `hybrid:/path` or `unix:/dir` is. Throws `TransportError` `bad_target`, or `VmError`
 * `no_such_vm`, `not_running`. Nothing is dialled yet.
 */
export function locateGuest(target: string): [address: Address, origin: GuestOrigin | undefined] {
  const { address, vm } = resolveTarget(target);
  if (vm === undefined) return [address, undefined];
  return [address, { name: vm.record.name, consoleTail: () => readConsoleTail(consoleLogPath(vm)) }];
}

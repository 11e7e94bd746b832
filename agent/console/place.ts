/** Where a session's commands run, as far as places differ: a guest with mounts of its own, or the machine of the server. */
import type { InitParams } from "#protocol/console/calls.ts";
import type { ByteChunks } from "#protocol/console/document-writer.ts";
import { ConsoleError } from "#protocol/console/errors.ts";
import type { Mount } from "#protocol/console/mount.ts";

/** A tree that is where `init` said it would be. */
export interface PlacedTree {
  /** Takes it away again; never rejects. */
  release(): Promise<void>;
}

export interface Place {
  /** Throws ConsoleError for what this place cannot give; decided by what it is, before anything is tried. */
  accept(params: InitParams): void;
  /** Where a session with these trees starts; undefined when that is gone or has no UTF-8 name. */
  home(mounts: readonly Mount[]): string | undefined;
  /** the environment of a command, but for PWD */
  environment(): Record<string, string>;
  /** Throws ConsoleError `mountFailed`; nothing is left behind then. */
  placeTree(mount: Mount): Promise<PlacedTree>;
  /** Throws ConsoleError `ioFailed` for a write that only this server keeps out of a read-only tree. */
  guardWrite(path: string, asSent: string, mounts: readonly Mount[]): Promise<void>;
  /** The session's writes as a layer. */
  snapshot(mounts: readonly Mount[]): Promise<ByteChunks>;
  /** Throws ConsoleError `bootFailed`. */
  restore(layer: Uint8Array): Promise<void>;
}

/** Refuses what no server can give whose machine and network were made before it started. */
export function refuseMachineAndNetwork(params: InitParams): void {
  if (!params.network) {
    throw new ConsoleError("unsupportedNetwork", "this server cannot take the network away from its commands");
  }
  if (params.ports.length > 0) {
    throw new ConsoleError("unsupportedNetwork", "this server cannot listen on the client's machine for a port");
  }
  if (params.gpuMemoryMib !== undefined && params.gpu !== true) {
    throw new ConsoleError("invalidParams", "gpu_memory_mib without a gpu");
  }
  const { vcpus, memoryMib: memory_mib, diskGib: disk_gib } = params;
  for (const [member, value] of Object.entries({ vcpus, memory_mib, disk_gib })) {
    if (value !== undefined) {
      throw new ConsoleError("unsupportedMachine", `this server's machine is made already: ${member} cannot be chosen`);
    }
  }
  if (params.gpu === true) throw new ConsoleError("unsupportedMachine", "this server has no GPU to give");
}

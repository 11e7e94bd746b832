/** Kernel modules: which ones stage 0 needs, and in which order they load. */

/**
 * What stage 0 loads, by occasion. `boot` is loaded always; the others only when the device or the file system that
 * needs them is there. Modules that the kernel has built in are left out by {@link loadOrder}.
 */
export const moduleGroups = {
  /** disks, the file systems of base, runtime and session, and the guest's end of vsock */
  boot: [
    "virtio_pci",
    "virtio_blk",
    "squashfs",
    "overlay",
    "ext4",
    "vsock",
    "vmw_vsock_virtio_transport",
    "vsock_loopback",
  ],
  /** shared folders are plugged in while the guest runs, so there is no device to ask for at boot */
  shares: ["virtiofs"],
  network: ["virtio_net", "af_packet"],
  entropy: ["virtio-rng"],
  erofs: ["erofs"],
} as const satisfies Record<string, readonly string[]>;

export type ModuleGroup = keyof typeof moduleGroups;

/** Facts of one kernel about its modules, as depmod and the kernel build write them. */
export interface ModuleIndex {
  /** path of each module's file (relative to the modules directory) by its name, and the paths that it needs */
  readonly files: ReadonlyMap<string, { readonly path: string; readonly needs: readonly string[] }>;
  /** names of the modules that are part of the kernel itself */
  readonly builtin: ReadonlySet<string>;
}

/** Reads `modules.dep` and `modules.builtin`. */
export function parseModuleIndex(modulesDep: string, modulesBuiltin: string): ModuleIndex {
  const files = new Map<string, { path: string; needs: string[] }>();
  for (const line of modulesDep.split("\n")) {
    const [path, needs] = line.split(":");
    if (path === undefined || needs === undefined) continue;
    files.set(moduleName(path), { path, needs: needs.split(" ").filter((one) => one !== "") });
  }
  const builtin = modulesBuiltin.split("\n").filter((line) => line !== "");
  return { files, builtin: new Set(builtin.map(moduleName)) };
}

/**
 * Paths of the modules named and of everything they need, each once, needed ones first. Throws an error that names a
 * module which the kernel neither has built in nor brings along.
 */
export function loadOrder(index: ModuleIndex, names: readonly string[]): string[] {
  const order = new Set<string>();
  const add = (name: string, neededBy: string | undefined) => {
    if (index.builtin.has(name)) return;
    const module = index.files.get(name);
    if (module === undefined)
      throw new Error(`the kernel has no module "${name}"${neededBy === undefined ? "" : `, which ${neededBy} needs`}`);
    if (order.has(module.path)) return;
    // modules.dep lists the whole closure, nearest first: every path of it must be loaded before this one.
    for (const path of module.needs.toReversed()) add(moduleName(path), name);
    order.add(module.path);
  };
  for (const name of names) add(canonicalName(name), undefined);
  return [...order];
}

function moduleName(path: string): string {
  return canonicalName((path.split("/").at(-1) ?? path).replace(/\.ko(?:\.xz|\.zst|\.gz)?$/, ""));
}

/** The kernel treats `-` and `_` in module names alike. */
function canonicalName(name: string): string {
  return name.replaceAll("-", "_");
}

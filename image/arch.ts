/** Everything in the image that depends on the guest's processor. A further architecture is a further entry here. */

export type GuestArchitecture = "x64";

export interface ArchitectureFacts {
  /** name of the architecture in Debian's archive */
  readonly debian: string;
  /** npm package that carries Bun's own executable for the guest */
  readonly bunPackage: string;
  /** `--target` of `bun build --compile` */
  readonly bunTarget: string;
  /** meta package that depends on the current cloud kernel */
  readonly kernelPackage: string;
  /** directory of the C library inside Debian's libc6, relative to the root */
  readonly libraryDirectory: string;
  /** file name of the dynamic loader */
  readonly loader: string;
  /** C++ compiler that builds node-pty's addon for the guest */
  readonly cxx: string;
  /** first serial port of the virtual machine, as the kernel names it */
  readonly console: string;
  /** kernel parameters that only this architecture needs */
  readonly kernelParameters: readonly string[];
}

export const architectures: Readonly<Record<GuestArchitecture, ArchitectureFacts>> = {
  x64: {
    debian: "amd64",
    bunPackage: "@oven/bun-linux-x64",
    bunTarget: "bun-linux-x64",
    kernelPackage: "linux-image-cloud-amd64",
    libraryDirectory: "lib/x86_64-linux-gnu",
    loader: "ld-linux-x86-64.so.2",
    cxx: "g++",
    console: "ttyS0",
    kernelParameters: [],
  },
};

/** The architecture with this name. Throws an error that lists the known ones. */
export function guestArchitecture(name: string): GuestArchitecture {
  if (Object.hasOwn(architectures, name)) return name as GuestArchitecture;
  throw new Error(`no image can be built for architecture "${name}"; known: ${Object.keys(architectures).join(", ")}`);
}

/**
 * Words of the kernel command line for every architecture: warnings and worse on the console; an end of the virtual
 * machine instead of a halted one after a panic; no self-tests of the kernel's ciphers, which take 0.3 s of a boot
 * without hardware virtualisation.
 */
export const commonKernelParameters: readonly string[] = ["loglevel=5", "panic=-1", "cryptomgr.notests"];

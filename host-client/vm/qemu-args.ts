import type { Accelerator } from "./accelerator.ts";

export interface Disk {
  /** virtio serial by which the guest finds the disk, e.g. `vmapp-base`; at most 20 bytes */
  serial: string;
  path: string;
  readOnly: boolean;
}

export type VsockDevice =
  /** vhost-device-vsock listens on this Unix socket */
  | { kind: "vhost-user"; socket: string }
  /** the kernel's vhost-vsock */
  | { kind: "vhost-kernel"; cid: number };

export interface QemuPlan {
  name: string;
  accelerator: Accelerator;
  memoryMib: number;
  cpus: number;
  kernel: string;
  initramfs: string;
  commandLine: string;
  disks: readonly Disk[];
  vsock: VsockDevice;
  /** `user`: QEMU's user-mode network */
  network: "none" | "user";
  /** Unix sockets to serve QMP on, one client each */
  qmpSockets: readonly string[];
}

/** In QEMU's key=value syntax a comma inside a value is doubled. */
function escapeValue(value: string): string {
  return value.replaceAll(",", ",,");
}

function diskArguments(disk: Disk, index: number): string[] {
  const node = `disk${index}`;
  // JSON, because file names may hold anything.
  const backend = {
    driver: "raw",
    "node-name": node,
    "read-only": disk.readOnly,
    discard: disk.readOnly ? "ignore" : "unmap",
    file: { driver: "file", filename: disk.path, "read-only": disk.readOnly },
  };
  // By default QEMU stops the whole machine, without a word, when the host has no room left for a write.
  const device = `virtio-blk-pci,drive=${node},serial=${disk.serial},werror=report,rerror=report`;
  return ["-blockdev", JSON.stringify(backend), "-device", device];
}

function vsockArguments(vsock: VsockDevice): string[] {
  switch (vsock.kind) {
    case "vhost-user":
      return [
        "-chardev",
        `socket,id=vsock,path=${escapeValue(vsock.socket)}`,
        "-device",
        "vhost-user-vsock-pci,chardev=vsock",
      ];
    case "vhost-kernel":
      return ["-device", `vhost-vsock-pci,guest-cid=${vsock.cid}`];
  }
}

/**
 * The arguments of `qemu-system-x86_64` for one VM. The guest's serial console comes out of QEMU's standard output.
 * QEMU exits when the guest powers off and when it reboots.
 */
export function qemuArguments(plan: QemuPlan): string[] {
  return [
    "-nodefaults",
    "-no-reboot",
    "-no-user-config",
    "-sandbox",
    "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny",
    "-name",
    escapeValue(plan.name),
    "-machine",
    `q35,accel=${plan.accelerator},memory-backend=memory,smm=off,vmport=off`,
    "-cpu",
    plan.accelerator === "kvm" ? "host" : "max",
    "-smp",
    String(plan.cpus),
    "-m",
    `${plan.memoryMib}M`,
    // Shared, so that a vhost-user process can reach the guest's memory.
    "-object",
    `memory-backend-memfd,id=memory,size=${plan.memoryMib}M,share=on`,
    "-kernel",
    plan.kernel,
    "-initrd",
    plan.initramfs,
    "-append",
    plan.commandLine,
    "-display",
    "none",
    "-chardev",
    "stdio,id=console,signal=off",
    "-device",
    "isa-serial,chardev=console",
    ...plan.qmpSockets.flatMap((path) => ["-qmp", `unix:${escapeValue(path)},server=on,wait=off`]),
    "-device",
    "virtio-rng-pci",
    ...plan.disks.flatMap(diskArguments),
    ...vsockArguments(plan.vsock),
    ...(plan.network === "user" ? ["-netdev", "user,id=net", "-device", "virtio-net-pci,netdev=net,romfile="] : []),
  ];
}

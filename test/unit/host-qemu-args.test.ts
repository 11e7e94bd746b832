import { describe, expect, test } from "bun:test";
import { type QemuPlan, qemuArguments } from "#host/vm/qemu-args.ts";

const plan: QemuPlan = {
  name: "a",
  accelerator: "tcg",
  memoryMib: 384,
  cpus: 3,
  kernel: "/img/kernel",
  initramfs: "/img/initramfs",
  commandLine: "console=ttyS0 quiet",
  disks: [],
  vsock: { kind: "vhost-user", socket: "/run/vh.sock" },
  network: "none",
  qmpSockets: ["/run/qmp.sock", "/run/owner.sock"],
};

/** Every value that follows the option. */
function valuesOf(args: readonly string[], option: string): string[] {
  return args.flatMap((argument, index) => (argument === option ? [args[index + 1] ?? ""] : []));
}

describe("QEMU's arguments", () => {
  test("nothing comes from QEMU's defaults or configuration files, and it is sandboxed", () => {
    const args = qemuArguments(plan);
    expect(args).toContain("-nodefaults");
    expect(args).toContain("-no-user-config");
    expect(valuesOf(args, "-sandbox")[0]).toStartWith("on,");
  });

  test("the guest's memory is shared, as large as asked for, and the machine's memory", () => {
    const args = qemuArguments(plan);
    expect(valuesOf(args, "-m")).toEqual(["384M"]);
    expect(valuesOf(args, "-object")).toEqual(["memory-backend-memfd,id=memory,size=384M,share=on"]);
    expect(valuesOf(args, "-machine")[0]).toContain("memory-backend=memory");
  });

  test.each([
    ["kvm", "accel=kvm", "host"],
    ["tcg", "accel=tcg", "max"],
  ] as const)("%s takes the processor that it can run", (accelerator, machine, cpu) => {
    const args = qemuArguments({ ...plan, accelerator });
    expect(valuesOf(args, "-machine")[0]).toContain(machine);
    expect(valuesOf(args, "-cpu")).toEqual([cpu]);
    expect(valuesOf(args, "-smp")).toEqual(["3"]);
  });

  test("disks carry their serials, and a read-only one is read-only in both layers", () => {
    const args = qemuArguments({
      ...plan,
      disks: [
        { serial: "vmapp-base", path: "/img/base", readOnly: true },
        { serial: "vmapp-session", path: '/odd, "name".img', readOnly: false },
      ],
    });
    const backends = valuesOf(args, "-blockdev").map((value) => JSON.parse(value));
    expect(backends).toMatchObject([
      { "node-name": "disk0", "read-only": true, file: { filename: "/img/base", "read-only": true } },
      { "node-name": "disk1", "read-only": false, file: { filename: '/odd, "name".img', "read-only": false } },
    ]);
    const devices = valuesOf(args, "-device");
    expect(devices).toContain("virtio-blk-pci,drive=disk0,serial=vmapp-base,werror=report,rerror=report");
    expect(devices).toContain("virtio-blk-pci,drive=disk1,serial=vmapp-session,werror=report,rerror=report");
  });

  test("vsock is vhost-device-vsock's or the kernel's", () => {
    expect(valuesOf(qemuArguments(plan), "-device")).toContain("vhost-user-vsock-pci,chardev=vsock");
    expect(valuesOf(qemuArguments(plan), "-chardev")).toContain("socket,id=vsock,path=/run/vh.sock");
    const kernel = qemuArguments({ ...plan, vsock: { kind: "vhost-kernel", cid: 77 } });
    expect(valuesOf(kernel, "-device")).toContain("vhost-vsock-pci,guest-cid=77");
    expect(kernel.join(" ")).not.toContain("vhost-user");
  });

  test("there is a network only when asked for", () => {
    expect(qemuArguments(plan).join(" ")).not.toContain("-net");
    const args = qemuArguments({ ...plan, network: "user" });
    expect(valuesOf(args, "-netdev")).toEqual(["user,id=net"]);
    expect(valuesOf(args, "-device")).toContain("virtio-net-pci,netdev=net,romfile=");
  });

  test("a comma in a socket's path does not end its option", () => {
    const args = qemuArguments({ ...plan, vsock: { kind: "vhost-user", socket: "/a,b" }, qmpSockets: ["/c,d"] });
    expect(valuesOf(args, "-chardev")).toContain("socket,id=vsock,path=/a,,b");
    expect(valuesOf(args, "-qmp")).toEqual(["unix:/c,,d,server=on,wait=off"]);
  });

  test("a reboot ends the run, so that the owner can start the next one", () => {
    expect(qemuArguments(plan)).toContain("-no-reboot");
  });
});

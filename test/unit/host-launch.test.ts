import { describe, expect, test } from "bun:test";
import { parseBootTimes } from "#host/cli/boot-times.ts";
import { parseCount, parseDisk, parseMebibytes, parseSeconds } from "#host/cli/option-values.ts";
import { isVmName } from "#host/transport/target.ts";
import { chooseAccelerator, hasVirtualisationFlag } from "#host/vm/accelerator.ts";
import { findProgram } from "#host/vm/find-program.ts";
import { generateVmName } from "#host/vm/vm-name.ts";
import { saysCidIsTaken } from "#host/vm/vsock-backend.ts";

describe("the accelerator", () => {
  test("is KVM only where the device opens and the processor can virtualise", () => {
    expect(chooseAccelerator("auto", { cpuVirtualisation: true })).toBe("kvm");
    expect(chooseAccelerator("auto", { cpuVirtualisation: false })).toBe("tcg");
    expect(chooseAccelerator("auto", { cpuVirtualisation: true, kvmError: "EACCES" })).toBe("tcg");
  });

  test("is what was asked for, and KVM that cannot be had is an error that says why", () => {
    expect(chooseAccelerator("tcg", { cpuVirtualisation: true })).toBe("tcg");
    expect(chooseAccelerator("kvm", { cpuVirtualisation: false })).toBe("kvm");
    expect(() => chooseAccelerator("kvm", { cpuVirtualisation: true, kvmError: "EACCES" })).toThrow("EACCES");
  });

  test("is told by a whole word among the flags", () => {
    expect(hasVirtualisationFlag("flags\t\t: fpu vmx sse\n")).toBe(true);
    expect(hasVirtualisationFlag("flags\t\t: fpu svm\n")).toBe(true);
    expect(hasVirtualisationFlag("flags\t\t: fpu svm_lock vmxx\nbugs\t: vmx\n")).toBe(false);
    expect(hasVirtualisationFlag("")).toBe(false);
  });
});

describe("the parts of a boot", () => {
  const log = [
    "vmapp-stage0: start 2.50",
    "vmapp-stage0: modules 2.9",
    "vmapp-stage0: switch_root 3.00\r",
    "vmapp-init: 4.1 info init started",
    "\x1b[0mvmapp-agent: 4.250 info ready",
  ];

  test("are read from the console", () => {
    expect(parseBootTimes(log.join("\n"))).toEqual({ kernel: 2.5, stage0: 0.5, services: 1.25 });
  });

  test("are those of the last boot", () => {
    const again = ["vmapp-stage0: start 5", "vmapp-stage0: switch_root 7", "vmapp-agent: 10 info ready"];
    expect(parseBootTimes([...log, ...again].join("\n"))).toEqual({ kernel: 5, stage0: 2, services: 3 });
  });

  test("are unknown when a mark is missing", () => {
    expect(parseBootTimes(log.slice(0, 4).join("\n"))).toBeUndefined();
  });
});

describe("values of options", () => {
  test("sizes are MiB, or have a unit", () => {
    expect(parseMebibytes("512")).toBe(512);
    expect(parseMebibytes("512M")).toBe(512);
    expect(parseMebibytes("2g")).toBe(2048);
    expect(parseMebibytes("1GiB")).toBe(1024);
    for (const bad of ["", "-1", "1.5G", "1T", "x", "99999999"]) expect(() => parseMebibytes(bad)).toThrow();
  });

  test("a disk is a size, a path, or both", () => {
    expect(parseDisk("1G")).toEqual({ sizeMib: 1024 });
    expect(parseDisk("work.img")).toEqual({ path: "work.img" });
    expect(parseDisk("/a:b/work.img:64")).toEqual({ path: "/a:b/work.img", sizeMib: 64 });
    expect(() => parseDisk("work.img:big")).toThrow();
  });

  test("counts and seconds are plain numbers", () => {
    expect(parseCount("4")).toBe(4);
    expect(parseSeconds("1.5")).toBe(1500);
    for (const bad of ["", "-1", "1e3", "x"]) {
      expect(() => parseCount(bad)).toThrow();
      expect(() => parseSeconds(bad)).toThrow();
    }
  });
});

test("a name that is made up can name a VM", () => {
  for (let count = 0; count < 200; count++) expect(isVmName(generateVmName())).toBe(true);
});

test("a program is found through its variable first, and not at all when that names nothing that runs", () => {
  const program = { name: "sh", purpose: "runs scripts", mend: "", variable: "VMAPP_TEST_SH" };
  expect(findProgram(program, { PATH: "/usr/bin:/bin" })).toMatch(/\/sh$/);
  expect(findProgram(program, { PATH: "/usr/bin:/bin", VMAPP_TEST_SH: "/bin/cat" })).toBe("/bin/cat");
  expect(findProgram(program, { PATH: "/usr/bin:/bin", VMAPP_TEST_SH: "/etc/passwd" })).toBeUndefined();
  expect(findProgram({ ...program, name: "no-such-program" }, { PATH: "/usr/bin" })).toBeUndefined();
});

test("QEMU's complaint about a CID in use is told from others", () => {
  expect(
    saysCidIsTaken("qemu: -device vhost-vsock-pci: vhost-vsock: unable to set guest cid: Address already in use"),
  ).toBe(true);
  expect(saysCidIsTaken("qemu: -device vhost-vsock-pci: vhost-vsock: failed to open vhost device")).toBe(false);
});

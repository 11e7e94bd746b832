import { closeSync, openSync, readFileSync } from "node:fs";
import { VmError } from "./error.ts";

export type Accelerator = "kvm" | "tcg";

/** What decides between KVM and software emulation. */
export interface AcceleratorFacts {
  /** why /dev/kvm does not open for reading and writing; absent when it does */
  kvmError?: string;
  /** the CPU shows hardware virtualisation (x86: the vmx or svm flag) */
  cpuVirtualisation: boolean;
}

export function probeAccelerator(): AcceleratorFacts {
  const facts: AcceleratorFacts = { cpuVirtualisation: hasVirtualisationFlag(readCpuInfo()) };
  try {
    closeSync(openSync("/dev/kvm", "r+"));
  } catch (error) {
    facts.kvmError = (error as NodeJS.ErrnoException).code ?? String(error);
  }
  return facts;
}

function readCpuInfo(): string {
  try {
    return readFileSync("/proc/cpuinfo", "latin1");
  } catch {
    return "";
  }
}

/** Looks for vmx or svm among the flags of /proc/cpuinfo; other architectures than x86 have no such flag. */
export function hasVirtualisationFlag(cpuInfo: string): boolean {
  return /^flags\s*:.*\b(?:vmx|svm)\b/m.test(cpuInfo);
}

/**
 * `auto` takes KVM only where the device opens and the CPU says that it can: a nested host may offer a /dev/kvm that
 * opens, creates VMs and never runs them. Throws {@link VmError} when KVM is demanded and cannot be had.
 */
export function chooseAccelerator(wanted: "auto" | Accelerator, facts: AcceleratorFacts): Accelerator {
  if (wanted === "tcg") return "tcg";
  if (wanted === "kvm") {
    if (facts.kvmError === undefined) return "kvm";
    throw new VmError("bad_option", `KVM was asked for and /dev/kvm does not open (${facts.kvmError})`);
  }
  return facts.kvmError === undefined && facts.cpuVirtualisation ? "kvm" : "tcg";
}

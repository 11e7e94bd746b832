import { execFileSync } from "node:child_process";
import { chooseAccelerator, probeAccelerator } from "./accelerator.ts";
import { findProgram, type Program, programs } from "./find-program.ts";
import { defaultImageDirectories, locateImage } from "./locate-image.ts";
import { openStateRoot } from "./state-root.ts";
import { vhostVsockError } from "./vsock-backend.ts";

/** One thing a host should have. */
export interface HostCheck {
  what: string;
  /** `lacking`: VMs cannot run; `slow`: they run, and less well than they could */
  status: "ok" | "slow" | "lacking";
  found: string;
  /** the command that mends it */
  mend?: string;
}

const versionTimeoutMs = 5_000;

/** Looks at everything that running a VM on this host needs. */
export async function checkHost(): Promise<HostCheck[]> {
  return [
    checkRuntime(),
    checkProgram(programs.qemu, ["--version"]),
    checkAccelerator(),
    checkVsock(),
    checkProgram(programs.setpriv, ["--version"]),
    checkProgram(programs.mkfsExt4, ["-V"]),
    checkStateRoot(),
    await checkImage(),
  ];
}

function checkRuntime(): HostCheck {
  const { bun, node } = process.versions;
  const found = bun === undefined ? `Node ${node}, which cannot dial vsock:CID targets` : `Bun ${bun}`;
  return { what: "runtime", status: "ok", found };
}

function checkProgram(program: Program, versionArguments: readonly string[]): HostCheck {
  const path = findProgram(program);
  if (path === undefined) {
    return { what: program.name, status: "lacking", found: `not found; it ${program.purpose}`, mend: program.mend };
  }
  return { what: program.name, status: "ok", found: `${path}${versionOf(path, versionArguments)}` };
}

function versionOf(path: string, args: readonly string[]): string {
  try {
    const text = execFileSync(path, args, { encoding: "utf8", timeout: versionTimeoutMs, stdio: "pipe" });
    const line = text.split("\n")[0]?.trim();
    return line ? ` (${line})` : "";
  } catch {
    return "";
  }
}

function checkAccelerator(): HostCheck {
  const facts = probeAccelerator();
  if (chooseAccelerator("auto", facts) === "kvm") return { what: "KVM", status: "ok", found: "/dev/kvm opens" };
  const emulated = "VMs run in software emulation, which takes seconds longer to boot";
  if (!facts.cpuVirtualisation) {
    const device = facts.kvmError === undefined ? "/dev/kvm opens, but " : "";
    return {
      what: "KVM",
      status: "slow",
      found: `${device}the CPU shows no hardware virtualisation; ${emulated}`,
      mend: "turn virtualisation on in the firmware, or nested virtualisation in the outer host",
    };
  }
  return {
    what: "KVM",
    status: "slow",
    found: `/dev/kvm does not open (${facts.kvmError}); ${emulated}`,
    mend:
      facts.kvmError === "EACCES"
        ? 'usermod -aG kvm "$USER" (then log in again)'
        : "modprobe kvm_intel || modprobe kvm_amd",
  };
}

function checkVsock(): HostCheck {
  const kernelError = vhostVsockError();
  const device = findProgram(programs.vhostDeviceVsock);
  if (kernelError === undefined) return { what: "vsock", status: "ok", found: "/dev/vhost-vsock opens" };
  if (device !== undefined) {
    return { what: "vsock", status: "ok", found: `${device} (/dev/vhost-vsock does not open: ${kernelError})` };
  }
  return {
    what: "vsock",
    status: "lacking",
    found: `/dev/vhost-vsock does not open (${kernelError}) and there is no ${programs.vhostDeviceVsock.name}`,
    mend:
      kernelError === "EACCES" ? 'usermod -aG kvm "$USER" (then log in again)' : "modprobe vhost_vsock || make setup",
  };
}

function checkStateRoot(): HostCheck {
  try {
    return { what: "state directory", status: "ok", found: openStateRoot() };
  } catch (error) {
    return {
      what: "state directory",
      status: "lacking",
      found: (error as Error).message,
      mend: 'export XDG_RUNTIME_DIR="$(mktemp -d)"',
    };
  }
}

async function checkImage(): Promise<HostCheck> {
  try {
    const image = await locateImage();
    return { what: "image", status: "ok", found: `${image.directory} (${image.manifest.architecture})` };
  } catch (error) {
    return {
      what: "image",
      status: "lacking",
      found: `${(error as Error).message.split(";")[0]} (looked in ${defaultImageDirectories().join(", ")})`,
      mend: "make image",
    };
  }
}

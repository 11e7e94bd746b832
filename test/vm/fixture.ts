/** VMs for tests. They live in a state root of this run and are gone when it ends. */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Guest } from "#host/guest.ts";
import { type StartVmOptions, startVm } from "#host/vm/start.ts";
import { stateFiles } from "#host/vm/state.ts";
import type { Vm } from "#host/vm/vm.ts";
import { atEndOfRun } from "./preload.ts";

/** Generous: software emulation on a busy machine. */
const startTimeoutMs = 120_000;

/** `beforeAll`s and tests that boot a VM take this as their timeout. */
export const bootTimeoutMs = startTimeoutMs + 30_000;

let runtimeDirectory: string | undefined;

/** Gives this process, and what it spawns, an `XDG_RUNTIME_DIR` of its own. Returns it. */
export function useOwnStateRoot(): string {
  if (runtimeDirectory === undefined) {
    const directory = mkdtempSync(join(tmpdir(), "vmapp-test-"));
    const former = process.env.XDG_RUNTIME_DIR;
    process.env.XDG_RUNTIME_DIR = directory;
    runtimeDirectory = directory;
    atEndOfRun.push(async () => {
      if (former === undefined) delete process.env.XDG_RUNTIME_DIR;
      else process.env.XDG_RUNTIME_DIR = former;
      rmSync(directory, { recursive: true, force: true });
    });
  }
  return runtimeDirectory;
}

/** A VM of the test's own. It is stopped at the end of the run at the latest; a panic on its console fails the run. */
export async function startTestVm(options: StartVmOptions = {}): Promise<Vm> {
  useOwnStateRoot();
  const vm = await startVm({ timeoutMs: startTimeoutMs, remove: false, ...options });
  atEndOfRun.push(async () => {
    await vm.stop();
    requireNoPanic(vm);
  });
  return vm;
}

/** Throws when the VM's console log has a kernel panic in it. */
export function requireNoPanic(vm: Vm): void {
  const log = readFileSync(join(vm.directory, stateFiles.consoleLog), "utf8");
  if (log.includes("Kernel panic")) {
    throw new Error(`the console of ${vm.name} has a kernel panic:\n${vm.consoleTail(40).join("\n")}`);
  }
}

let shared: Promise<Vm> | undefined;

/** The one VM that tests share which do not change it for others. Booted on first use. */
export function sharedVm(): Promise<Vm> {
  shared ??= startTestVm({ name: "shared" });
  return shared;
}

/** The guest of {@link sharedVm}. */
export async function sharedGuest(): Promise<Guest> {
  return (await sharedVm()).guest;
}

/** VMs on a host that has no room left, and VMs that are stopped at a bad moment. */
import { expect, test } from "bun:test";
import { existsSync, mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { setImmediate } from "node:timers/promises";
import { isProcessAlive } from "#host/vm/process-identity.ts";
import { readVmRecord, stateFiles } from "#host/vm/state.ts";
import { cliCommand } from "#test/host/cli.ts";
import { bootTimeoutMs, startTestVm, useOwnStateRoot } from "./fixture.ts";

test(
  "a host without room for what a guest writes fails the write: the guest goes on, and its end is not lost",
  async () => {
    const small = join(useOwnStateRoot(), "small");
    mkdirSync(small, { mode: 0o700 });
    const script = 'mount -t tmpfs -o size=40m,mode=0700 small "$0" && XDG_RUNTIME_DIR="$0" exec "$@"';
    const fill = "dd if=/dev/zero of=/root/zeros bs=1M count=60 2>/dev/null; sync; echo still here";
    const run = ["run", "--name", "full", "--disk", "256M", "--timeout", "120", "--", "sh", "-c", fill];
    const child = Bun.spawn(
      ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script, small, ...cliCommand(run)],
      { stdin: "ignore", stdout: "pipe", stderr: "pipe" },
    );
    try {
      const [stdout, stderr, code] = await Promise.all([child.stdout.text(), child.stderr.text(), child.exited]);
      expect({ code, stdout, stderr }).toMatchObject({ code: 0, stdout: "still here\n" });
      expect(stderr).toContain("full: the guest powered off");
    } finally {
      child.kill("SIGKILL");
    }
  },
  bootTimeoutMs,
);

test(
  "a VM that is stopped while its guest reboots has ended, and does not come up again",
  async () => {
    const vm = await startTestVm({ memoryMib: 256, cpus: 1 });
    const before = readVmRecord(vm.directory)?.qemu;
    if (before === undefined) throw new Error("QEMU is not on record");
    await vm.guest.exec(["reboot"]).catch(() => {});
    // Between two runs of QEMU there may be a vsock device to start, which makes its socket anew.
    const socket = join(vm.directory, stateFiles.vhostUser);
    const runsAgain = () => readVmRecord(vm.directory)?.qemu?.pid !== before.pid;
    while (isProcessAlive(before) || existsSync(socket)) await setImmediate();
    while (!existsSync(socket) && !runsAgain()) await setImmediate();
    await vm.stop();
    expect(await vm.exited).toMatchObject({ state: "stopped" });
    const after = readVmRecord(vm.directory);
    expect(after).toMatchObject({ state: "stopped" });
    expect(after?.qemu !== undefined && isProcessAlive(after.qemu)).toBe(false);
    expect(readFileSync(join(vm.directory, stateFiles.consoleLog), "utf8")).toContain("info down action=reboot");
  },
  2 * bootTimeoutMs,
);

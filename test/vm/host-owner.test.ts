/** What happens to VMs whose owner, or whose guest, ends in a bad way. */
import { describe, expect, test } from "bun:test";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { isProcessAlive, waitForProcessEnd } from "#host/vm/process-identity.ts";
import { startVm } from "#host/vm/start.ts";
import { readVmRecord, type VmRecord } from "#host/vm/state.ts";
import { runCli, spawnCli } from "#test/host/cli.ts";
import { bootTimeoutMs, startTestVm, useOwnStateRoot } from "./fixture.ts";

const startTimeout = ["--timeout", "120"];
const orphanLimitMs = 5_000;

function recordOf(name: string): VmRecord {
  const record = readVmRecord(join(useOwnStateRoot(), "vmapp", name));
  if (record === undefined) throw new Error(`${name} has no record`);
  return record;
}

async function expectHelpersGone({ qemu, vsockDevice }: VmRecord): Promise<void> {
  if (qemu === undefined) throw new Error("QEMU is not on record");
  const helpers = [qemu, vsockDevice].filter((helper) => helper !== undefined);
  const gone = await Promise.all(helpers.map((helper) => waitForProcessEnd(helper, orphanLimitMs)));
  expect(gone).toEqual(helpers.map(() => true));
}

describe("an owner that is killed", () => {
  test(
    "in the background: QEMU and its helper are gone within 5 s, the VM is shown as dead, and the name can be used again",
    async () => {
      useOwnStateRoot();
      const first = await runCli(["run", "--name", "orphan", "--detach", ...startTimeout]);
      expect(first).toMatchObject({ code: 0, stdout: "orphan\n" });
      const record = recordOf("orphan");
      expect(record.detached).toBe(true);
      process.kill(record.owner.pid, "SIGKILL");
      await expectHelpersGone(record);
      expect((await runCli(["list"])).stdout).toMatch(/^orphan +dead/m);
      const unreachable = await runCli(["exec", "orphan", "--", "true"]);
      expect(unreachable.code).toBe(255);
      expect(unreachable.stderr).toContain("its owner is gone");

      expect(await runCli(["run", "--name", "orphan", "--detach", ...startTimeout])).toMatchObject({ code: 0 });
      expect(await runCli(["exec", "orphan", "--", "hostname"])).toMatchObject({ code: 0, stdout: "orphan\n" });
      const second = recordOf("orphan");
      expect(second.id).not.toBe(record.id);
      expect(await runCli(["stop", "--rm", "orphan"])).toMatchObject({ code: 0 });
      await expectHelpersGone(second);
      expect(await waitForProcessEnd(second.owner, orphanLimitMs)).toBe(true);
      expect(existsSync(join(useOwnStateRoot(), "vmapp", "orphan"))).toBe(false);
    },
    2 * bootTimeoutMs,
  );

  test(
    "in the foreground, while the guest boots: nothing of it is left, and vmapp stop cleans up",
    async () => {
      useOwnStateRoot();
      const owner = spawnCli(["run", "--name", "early", ...startTimeout]);
      const directory = join(useOwnStateRoot(), "vmapp", "early");
      const deadline = performance.now() + 30_000;
      while (readVmRecord(directory)?.qemu === undefined) {
        if (performance.now() > deadline) throw new Error(await new Response(owner.stderr).text());
        await Bun.sleep(20);
      }
      const record = recordOf("early");
      if (record.qemu === undefined || !isProcessAlive(record.qemu)) throw new Error("QEMU does not run");
      owner.kill("SIGKILL");
      await owner.exited;
      await expectHelpersGone(record);
      const stopped = await runCli(["stop", "early"]);
      expect(stopped).toMatchObject({ code: 0 });
      expect(stopped.stdout).toContain("its owner is gone");
      expect(existsSync(directory)).toBe(false);
    },
    bootTimeoutMs,
  );
});

describe("an owner that ends without stopping its VM", () => {
  test(
    "takes QEMU with it, and puts the end on record or removes the VM's directory",
    async () => {
      const root = join(useOwnStateRoot(), "vmapp");
      const start = join(import.meta.dirname, "../../host-client/vm/start.ts");
      for (const remove of [false, true]) {
        const script = `
          const { startVm } = await import(${JSON.stringify(start)});
          const vm = await startVm({ name: "left", remove: ${remove}, memoryMib: 256, cpus: 1, timeoutMs: 120_000 });
          process.stdout.write(await Bun.file(vm.directory + "/vm.json").text(), () => process.exit());`;
        const owner = Bun.spawn([process.execPath, "-e", script], {
          stdout: "pipe",
          stderr: "inherit",
          env: process.env,
        });
        const record = JSON.parse(await new Response(owner.stdout).text());
        expect(await owner.exited).toBe(0);
        await expectHelpersGone(record);
        if (remove) expect(existsSync(join(root, "left"))).toBe(false);
        else expect(recordOf("left")).toMatchObject({ state: "stopped", ended: "its owner ended" });
      }
    },
    2 * bootTimeoutMs,
  );
});

describe("a start that is given up", () => {
  test("by SIGINT while the guest boots, leaves nothing running, and ends with the signal's status", async () => {
    useOwnStateRoot();
    const owner = spawnCli(["run", "--name", "given-up", ...startTimeout]);
    const reader = owner.stderr.getReader();
    expect(Buffer.from((await reader.read()).value ?? []).toString()).toContain("waiting for the guest of given-up");
    const record = recordOf("given-up");
    owner.kill("SIGINT");
    expect(await owner.exited).toBe(130);
    await expectHelpersGone(record);
    expect(recordOf("given-up").state).toBe("stopped");
  }, 60_000);

  test("by SIGINT in the background, leaves nothing running, and ends with the signal's status", async () => {
    useOwnStateRoot();
    const starter = spawnCli(["run", "--name", "called-off", "--detach", ...startTimeout]);
    const directory = join(useOwnStateRoot(), "vmapp", "called-off");
    while (readVmRecord(directory)?.qemu === undefined && starter.exitCode === null) await Bun.sleep(20);
    const record = recordOf("called-off");
    starter.kill("SIGINT");
    expect(await starter.exited).toBe(130);
    await expectHelpersGone(record);
    expect(await waitForProcessEnd(record.owner, orphanLimitMs)).toBe(true);
    expect(recordOf("called-off").state).toBe("stopped");
  }, 60_000);
});

describe("a guest that does not come up", () => {
  test(
    "a panic is reported as one, with the end of the console, long before the deadline",
    async () => {
      useOwnStateRoot();
      const started = startVm({
        name: "panics",
        remove: false,
        timeoutMs: 120_000,
        // Stage 0 is the initramfs's /init; without it the kernel finds no root either.
        kernelArguments: ["rdinit=/nonexistent", "init=/nonexistent"],
      });
      await expect(started).rejects.toMatchObject({ name: "VmError", code: "crashed" });
      await expect(started).rejects.toThrow(/panics ended before its guest answered: Kernel panic - not syncing/);
      await expect(started).rejects.toThrow(/\n {2}\| .*Kernel panic - not syncing/);
      const record = recordOf("panics");
      expect(record.state).toBe("crashed");
      await expectHelpersGone(record);
      const logs = await runCli(["logs", "panics"]);
      expect(logs.stdout).toContain("Kernel panic - not syncing");
      const exec = await runCli(["exec", "panics", "--", "true"]);
      expect(exec).toMatchObject({ code: 255 });
      expect(exec.stderr).toContain("Kernel panic - not syncing");
    },
    bootTimeoutMs,
  );

  test(
    "a stage 0 that gives up is quoted, through the background owner too, whose exit code is 255",
    async () => {
      useOwnStateRoot();
      const bad = join(useOwnStateRoot(), "bad.img");
      await Bun.write(bad, new Uint8Array(1024 * 1024));
      const run = await runCli(["run", "--name", "bad-disk", "--detach", "--disk", bad, ...startTimeout]);
      expect(run.code).toBe(255);
      expect(run.stdout).toBe("");
      expect(run.stderr).toContain("the VM bad-disk ended before its guest answered");
      expect(run.stderr).toContain("vmapp-stage0: error");
      await expectHelpersGone(recordOf("bad-disk"));
    },
    bootTimeoutMs,
  );

  test("a deadline that passes is reported with what was waited for and how often it was tried, on one line", async () => {
    useOwnStateRoot();
    const run = await runCli(["run", "--name", "slow", "--timeout", "1"]);
    expect(run.code).toBe(255);
    expect(run.stderr.match(/waiting for/g)).toHaveLength(1);
    expect(run.stderr).toMatch(/the guest of slow: no answer within 1 s \(\d+ tries; the last: /);
    await expectHelpersGone(recordOf("slow"));
  }, 60_000);

  test("an image that is not there is named, with the command that builds one", async () => {
    const run = await runCli(["run", "--image", "/nonexistent"]);
    expect(run.code).toBe(255);
    expect(run.stderr).toContain("/nonexistent");
    expect(run.stderr).toContain("make image");
  });
});

describe("a guest that crashes while it is used", () => {
  test(
    "ends the command with 255 and the panic on the console, not with a timeout",
    async () => {
      useOwnStateRoot();
      const crash = "echo c > /proc/sysrq-trigger; sleep 60";
      const run = await runCli(["run", "--name", "crashes", ...startTimeout, "--", "sh", "-c", crash]);
      expect(run.code).toBe(255);
      expect(run.stderr).toMatch(
        /the VM crashes ended before "sh" did: Kernel panic - not syncing: sysrq triggered crash/,
      );
      expect(run.stderr).toMatch(/\nThe console of crashes ends with:\n {2}\| /);
      const record = recordOf("crashes");
      expect(record.state).toBe("crashed");
      await expectHelpersGone(record);
    },
    bootTimeoutMs,
  );

  test(
    "by halting stays as it is until it is stopped, and then QEMU is told to quit",
    async () => {
      const vm = await startTestVm({ name: "halts", memoryMib: 256, cpus: 1 });
      await vm.guest.exec(["halt"]).catch(() => {});
      while (!vm.consoleTail().some((line) => line.includes("System halted"))) await Bun.sleep(100);
      expect((await runCli(["list"])).stdout).toMatch(/^halts +running/m);
      const stopped = await runCli(["stop", "halts"]);
      expect(stopped.code).toBe(0);
      expect(stopped.stdout).toStartWith("halts: QEMU was told to quit");
      expect(await vm.exited).toEqual({ state: "stopped", reason: "QEMU was told to quit" });
    },
    bootTimeoutMs,
  );
});

describe("vmapp logs --follow", () => {
  test(
    "goes on until the VM ends, and has the way down in it",
    async () => {
      useOwnStateRoot();
      expect(await runCli(["run", "--name", "followed", "--detach", ...startTimeout])).toMatchObject({ code: 0 });
      const follower = spawnCli(["logs", "--follow", "followed"]);
      const text = new Response(follower.stdout).text();
      expect(await runCli(["exec", "followed", "--", "poweroff"])).toMatchObject({ code: 0 });
      expect(await follower.exited).toBe(0);
      expect(await text).toContain("reboot: Power down");
      const directory = join(useOwnStateRoot(), "vmapp", "followed");
      expect(recordOf("followed")).toMatchObject({ state: "stopped", ended: "the guest powered off" });
      expect(readFileSync(join(directory, "owner.log"), "utf8")).toContain("the guest powered off");
    },
    bootTimeoutMs,
  );
});

/** How a real guest goes down. These tests end their VMs, so each group has its own. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { createHash, randomBytes } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Qmp } from "#host/vm/qmp.ts";
import { stateFiles } from "#host/vm/state.ts";
import type { Vm } from "#host/vm/vm.ts";
import { bootTimeoutMs, requireNoPanic, startTestVm } from "./fixture.ts";

/** hazard 12 asks for 50; a shorter run shows the same way down */
const rounds = process.env.VMAPP_FULL === "1" ? 50 : 2;
const endTimeoutMs = 60_000;
/** a command that asks PID 1 to go down ends by itself, unless SIGTERM, which then goes to everybody, is quicker */
const endedOrEnding = [0, 128 + 15];

async function run(command: string[], input?: Uint8Array): Promise<string> {
  const child = Bun.spawn(command, { stdin: input ?? "ignore", stdout: "pipe", stderr: "pipe" });
  const [stdout, stderr, code] = await Promise.all([child.stdout.bytes(), child.stderr.text(), child.exited]);
  if (code !== 0) throw new Error(`${command.join(" ")}: exit ${code}: ${Buffer.from(stdout)}${stderr}`);
  return Buffer.from(stdout).toString("latin1");
}

const bootId = async (vm: Vm): Promise<string> =>
  (await vm.guest.exec(["cat", "/proc/sys/kernel/random/boot_id"])).stdout.toString().trim();

/** The guest's boot id once it is another than `former`. */
async function untilRebooted(vm: Vm, former: string): Promise<void> {
  const deadline = performance.now() + bootTimeoutMs;
  for (;;) {
    const now = await bootId(vm).catch(() => former);
    if (now !== former && now !== "") return;
    if (performance.now() > deadline) throw new Error(`no new boot:\n${vm.consoleTail(20).join("\n")}`);
    await Bun.sleep(200);
  }
}

async function untilOnConsole(vm: Vm, text: string): Promise<void> {
  const deadline = performance.now() + endTimeoutMs;
  while (!vm.consoleTail(50).some((line) => line.includes(text))) {
    if (performance.now() > deadline) throw new Error(`no ${text} on the console:\n${vm.consoleTail(20).join("\n")}`);
    await Bun.sleep(50);
  }
}

describe("a guest goes down", () => {
  let vm: Vm;
  beforeAll(async () => {
    vm = await startTestVm();
  }, bootTimeoutMs);

  test(
    "and comes up again on busybox's reboot",
    async () => {
      const former = await bootId(vm);
      expect(endedOrEnding).toContain((await vm.guest.exec(["reboot"])).code);
      await untilRebooted(vm, former);
      requireNoPanic(vm);
    },
    2 * bootTimeoutMs,
  );

  test(
    "and comes up again on Ctrl-Alt-Del, by way of PID 1",
    async () => {
      const former = await bootId(vm);
      const qmp = await Qmp.connect({ path: join(vm.directory, stateFiles.qmp), timeoutMs: 5_000 });
      const keys = ["ctrl", "alt", "delete"].map((data) => ({ type: "qcode", data }));
      await qmp.execute("send-key", { keys });
      qmp.close();
      await untilOnConsole(vm, "info going down action=reboot reason=SIGINT");
      await untilRebooted(vm, former);
      requireNoPanic(vm);
    },
    2 * bootTimeoutMs,
  );

  test(
    "on busybox's halt, and stays there without a panic",
    async () => {
      await vm.guest.exec(["halt"]).catch(() => {});
      await untilOnConsole(vm, "System halted");
      requireNoPanic(vm);
      await vm.kill();
    },
    endTimeoutMs,
  );
});

describe("a guest with a session disk", () => {
  let directory: string;
  let disk: string;
  beforeAll(() => {
    directory = mkdtempSync(join(tmpdir(), "vmapp-power-"));
    disk = join(directory, "session.img");
  });
  afterAll(() => rmSync(directory, { recursive: true, force: true }));

  test(
    `leaves it clean and its files whole when it powers off, ${rounds} times`,
    async () => {
      let kept: { name: string; sha256: string } | undefined;
      for (let round = 1; round <= rounds; round++) {
        const vm = await startTestVm({ sessionDisk: { path: disk, sizeMib: 64 } });
        if (kept !== undefined) {
          const { stdout } = await vm.guest.exec(["sha256sum", `/root/${kept.name}`]);
          expect(stdout.toString().split(" ")[0]).toBe(kept.sha256);
        }
        const content = randomBytes(1024 * 1024 + round);
        const name = `round-${round % 4}`;
        const script = `cat >/root/${name} && poweroff`;
        expect(endedOrEnding).toContain((await vm.guest.exec(["sh", "-c", script], { stdin: content })).code);
        expect((await vm.exited).state).toBe("stopped");
        requireNoPanic(vm);
        expect(vm.consoleTail(50).join("\n")).not.toMatch(/vmapp-init: \S+ error/);

        await run(["e2fsck", "-n", "-f", disk]);
        expect(await run(["dumpe2fs", "-h", disk])).not.toContain("needs_recovery");
        kept = { name, sha256: createHash("sha256").update(content).digest("hex") };
        const whole = await run(["debugfs", "-R", `cat upper/root/${name}`, disk]);
        expect(createHash("sha256").update(whole, "latin1").digest("hex")).toBe(kept.sha256);
      }
    },
    rounds * 2 * bootTimeoutMs,
  );

  test(
    "leaves it clean also when a process writes until the end and will not stop",
    async () => {
      const vm = await startTestVm({ sessionDisk: { path: disk, sizeMib: 64 } });
      const script = "trap '' TERM HUP; while :; do head -c 200000 /dev/urandom >/root/busy; done";
      const busy = vm.guest.exec(["sh", "-c", script]).catch(() => {});
      await Bun.sleep(1_000);
      await vm.guest.exec(["poweroff"]).catch(() => {});
      expect((await vm.exited).state).toBe("stopped");
      await busy;
      requireNoPanic(vm);
      await run(["e2fsck", "-n", "-f", disk]);
      expect(await run(["dumpe2fs", "-h", disk])).not.toContain("needs_recovery");
    },
    2 * bootTimeoutMs,
  );

  test(
    "is gone within 15 s even when its filesystem is frozen and a process waits for it in the kernel",
    async () => {
      const vm = await startTestVm({ sessionDisk: { path: disk, sizeMib: 64 } });
      const script =
        "sync; fsfreeze --freeze /run/vmapp/session || exit 9; (echo stuck >/root/stuck) & sleep 1; poweroff";
      const asked = performance.now();
      expect([...endedOrEnding, 128 + 9]).toContain((await vm.guest.exec(["sh", "-c", script])).code);
      expect((await vm.exited).state).toBe("stopped");
      expect(performance.now() - asked).toBeLessThan(20_000);
      requireNoPanic(vm);
      expect(vm.consoleTail(50).join("\n")).toContain("info down action=power-off");
      // Frozen means whole: what a power cut would have to repair was not begun.
      await run(["e2fsck", "-n", "-f", disk]);
    },
    2 * bootTimeoutMs,
  );
});

/** PID 1 at work in a real guest. The guest is shared with other tests: each leaves it as it found it. */
import { beforeAll, describe, expect, test } from "bun:test";
import { resolve } from "node:path";
import type { Guest } from "#host/guest.ts";
import type { Vm } from "#host/vm/vm.ts";
import { ports } from "#protocol/ports.ts";
import { bootTimeoutMs, sharedVm } from "./fixture.ts";

const loopbackProbe = resolve(import.meta.dir, "guest/vsock-loopback.ts");

let vm: Vm;
let guest: Guest;
beforeAll(async () => {
  vm = await sharedVm();
  guest = vm.guest;
}, bootTimeoutMs);

const shell = async (script: string): Promise<string> => {
  const { code, stdout, stderr } = await guest.exec(["sh", "-c", script]);
  if (code !== 0) throw new Error(`exit ${code}: ${stderr}`);
  return stdout.toString();
};

/** Tries until the guest answers again, as after a restart of its agent. */
async function untilAnswers(): Promise<void> {
  const deadline = performance.now() + 20_000;
  for (;;) {
    try {
      await guest.exec(["true"]);
      return;
    } catch (error) {
      if (performance.now() > deadline) throw error;
      await Bun.sleep(50);
    }
  }
}

/** Seconds since boot of the console's last line that has this text. */
function consoleTime(text: string): number {
  const line = vm.consoleTail(200).findLast((candidate) => candidate.includes(text));
  const time = /^vmapp-\w+: (\d+\.\d+) /.exec(line ?? "")?.[1];
  if (time === undefined) throw new Error(`no line with ${JSON.stringify(text)} on the console`);
  return Number(time);
}

describe("PID 1 in a guest", () => {
  test("is vmapp-init", async () => {
    expect(await shell("cat /proc/1/comm")).toBe("vmapp-init\n");
  });

  test("has mounted what stage 0 left", async () => {
    const mounts = (await shell("cut -d' ' -f2,3 /proc/mounts")).split("\n");
    for (const mount of [
      "/dev/pts devpts",
      "/dev/shm tmpfs",
      "/dev/mqueue mqueue",
      "/sys/fs/cgroup cgroup2",
      "/run tmpfs",
    ])
      expect(mounts).toContain(mount);
    expect(await shell("echo through the link >/dev/stdout; stat -c %a /tmp /run/vmapp /var/lib/vmapp")).toBe(
      "through the link\n1777\n755\n700\n",
    );
  });

  test("lets every user open a terminal", async () => {
    expect(await shell("stat -c %a /dev/pts/ptmx; stat -c %a /dev/ptmx")).toBe("666\n666\n");
  });

  test("has named the guest as the host asked", async () => {
    expect(await shell("hostname")).toBe(`${vm.name}\n`);
  });

  test("reaps 2000 orphans within a second while every session gets its own exit status", async () => {
    const loop = "(i=0; while [ $i -lt 1000 ]; do sh -c 'sleep 0.05 &'; i=$((i+1)); done) &";
    const orphans = shell(`${loop} ${loop} wait`);
    const codes = Array.from({ length: 40 }, (_, index) => index);
    const statuses: number[] = [];
    for (const code of codes) statuses.push((await guest.exec(["sh", "-c", `exit ${code}`])).code);
    await orphans;
    await Bun.sleep(1_000);
    expect(await shell("grep -l '^State:.Z' /proc/[0-9]*/status 2>/dev/null || true")).toBe("");
    expect(statuses).toEqual(codes);
  }, 120_000);

  test("has a killed agent serve again in under 2 s, time after time", async () => {
    const pauses: number[] = [];
    for (let round = 0; round < 3; round++) {
      await guest.exec(["sh", "-c", "kill -9 $PPID"]).catch(() => {});
      await untilAnswers();
      const killed = consoleTime("service ended service=agent");
      pauses.push(consoleTime("info ready") - killed);
      expect(await shell("echo served")).toBe("served\n");
    }
    expect(Math.min(...pauses)).toBeGreaterThan(0);
    // The host may be busy with something else during one of them.
    expect(Math.min(...pauses)).toBeLessThan(2);
  }, 90_000);

  test("has the kernel end its services last when memory runs out, and what a session runs like any program", async () => {
    const scores = await shell(`
      for role in bridge agent; do
        for p in $(pidof vmapp-init); do
          tr '\\0' '\\n' </proc/$p/cmdline | grep -qx $role && echo $role $(cat /proc/$p/oom_score_adj)
        done
      done
      echo session $(cat /proc/self/oom_score_adj)`);
    expect(scores).toBe("bridge -900\nagent -900\nsession 0\n");
  });

  test("hands nothing on of what the kernel made of its command line", async () => {
    const names = await shell("tr '\\0' '\\n' </proc/$PPID/environ | cut -d= -f1 | sort");
    expect(names.trim().split("\n")).toEqual([
      "HOME",
      "PATH",
      "SHELL",
      "USER",
      "VMAPP_BASE",
      "VMAPP_LOG_LEVEL",
      "VMAPP_UPDATES",
    ]);
  });

  test("idles: almost no wake-ups, and little memory of its own", async () => {
    const sample = () => shell("cat /proc/1/task/*/status | awk '/voluntary_ctxt/{n+=$2} END{print n}'");
    await Bun.sleep(2_000);
    const before = Number(await sample());
    await Bun.sleep(5_000);
    expect(Number(await sample()) - before).toBeLessThan(200);
    expect(Number(await shell("awk '/RssAnon/{print $2}' /proc/1/status"))).toBeLessThan(16 * 1024);
  }, 30_000);
});

describe("a listener", () => {
  test("refuses a peer that is not the host", async () => {
    const built = await Bun.build({ entrypoints: [loopbackProbe], target: "bun" });
    const source = await built.outputs[0]?.text();
    if (source === undefined) throw new Error("the probe was not built");
    await guest.exec(["sh", "-c", "cat >/tmp/probe.js"], { stdin: source });
    try {
      for (const [name, port] of [
        ["shell", ports.shell],
        ["control", ports.control],
      ] as const) {
        const { stdout, stderr } = await guest.exec(["/opt/vmapp/bin/vmapp-init", "/tmp/probe.js", String(port)], {
          env: { BUN_BE_BUN: "1" },
        });
        expect(`${stdout}${stderr}`).toBe('{"outcome":"closed"}\n');
        const warnings = vm.consoleTail(200).filter((line) => line.includes("peer refused"));
        expect(
          warnings.some((line) => line.includes(`service=${name}`) && line.includes("CID 1 is not the host")),
        ).toBe(true);
      }
      expect((await guest.exec(["echo", "served"])).stdout.toString()).toBe("served\n");
    } finally {
      await guest.exec(["rm", "-f", "/tmp/probe.js"]);
    }
  }, 60_000);
});

import { describe, expect, test } from "bun:test";
import { type MountEntry, parseMountTable } from "#init/mount-table.ts";
import { type PowerStep, planFilesystems, planPower } from "#init/power-plan.ts";

const mounted = (target: string, type: string, writable = true): MountEntry => ({ target, type, writable });

/** As stage 0 and the boot leave it, with a share and a disk of the user's. */
const guest = [
  mounted("/proc", "proc"),
  mounted("/sys", "sysfs"),
  mounted("/dev", "devtmpfs"),
  mounted("/run", "tmpfs"),
  mounted("/run/vmapp/base", "squashfs", false),
  mounted("/run/vmapp/session", "ext4"),
  mounted("/", "overlay"),
  mounted("/opt/vmapp", "squashfs", false),
  mounted("/dev/pts", "devpts"),
  mounted("/mnt/share", "virtiofs"),
  mounted("/data", "ext4"),
  mounted("/data/inner", "xfs"),
];

function position(steps: readonly PowerStep[], sought: Partial<PowerStep>): number {
  const found = steps.findIndex((step) =>
    Object.entries(sought).every(([key, value]) => Reflect.get(step, key) === value),
  );
  if (found < 0) throw new Error(`no step ${JSON.stringify(sought)}`);
  return found;
}

describe("the plan for going down", () => {
  const steps = planPower({ action: "power-off", ownsMachine: true });

  test("stops the supervision before it signals anybody", () => {
    expect(steps[0]).toEqual({ do: "stop-supervising" });
  });

  test("ends the sessions' processes before the service that carries them", () => {
    expect(position(steps, { do: "await-end", who: "workloads" })).toBeLessThan(
      position(steps, { do: "signal", who: "session-carriers" }),
    );
  });

  test("asks before it kills, and kills everything before it touches a filesystem", () => {
    const kill = position(steps, { do: "signal", who: "everything", signal: "SIGKILL" });
    expect(kill).toBeGreaterThan(position(steps, { do: "signal", who: "session-carriers", signal: "SIGTERM" }));
    expect(kill).toBeLessThan(position(steps, { do: "sync" }));
    expect(position(steps, { do: "sync" })).toBeLessThan(position(steps, { do: "release-filesystems" }));
  });

  test("asks the kernel last, for what was asked of it", () => {
    for (const action of ["reboot", "halt", "power-off"] as const)
      expect(planPower({ action, ownsMachine: true }).at(-1)).toEqual({ do: "ask-kernel", action });
  });

  test("gives processes no more than 2 s each to end by themselves, and all waits together less than 10 s", () => {
    const limits = steps.flatMap((step) => ("limitMs" in step ? [step.limitMs] : []));
    const grace = steps.flatMap((step) => (step.do === "await-end" ? [step.limitMs] : []));
    expect(Math.max(...grace)).toBeLessThanOrEqual(2_000);
    expect(limits.reduce((sum, limit) => sum + limit, 0)).toBeLessThan(10_000);
  });

  test("leaves the filesystems alone in a container, whose machine is not its own", () => {
    const contained = planPower({ action: "reboot", ownsMachine: false }).map((step) => step.do);
    expect(contained).not.toContain("sync");
    expect(contained).not.toContain("release-filesystems");
  });
});

describe("the plan for the filesystems", () => {
  const steps = planFilesystems(guest);

  test("orders the root before the disk on which its upper directory lies", () => {
    expect(steps.slice(-2)).toEqual([
      { do: "remount-read-only", target: "/" },
      { do: "remount-read-only", target: "/run/vmapp/session" },
    ]);
  });

  test("unmounts later mounts before the ones that they lie on", () => {
    expect(steps.slice(0, 3)).toEqual([
      { do: "unmount", target: "/data/inner", otherwise: "remount-read-only" },
      { do: "unmount", target: "/data", otherwise: "remount-read-only" },
      { do: "unmount", target: "/mnt/share", otherwise: "detach" },
    ]);
  });

  test("leaves out what is in memory or read-only", () => {
    expect(steps.map((step) => step.target).sort()).toEqual([
      "/",
      "/data",
      "/data/inner",
      "/mnt/share",
      "/run/vmapp/session",
    ]);
  });

  test("does nothing about a root that is in memory", () => {
    expect(planFilesystems([mounted("/", "rootfs"), mounted("/", "tmpfs")])).toEqual([]);
  });

  test("names a target once for each mount that is stacked on it", () => {
    expect(planFilesystems([mounted("/a", "ext4"), mounted("/a", "ext4")])).toHaveLength(2);
  });
});

describe("the mount table", () => {
  const text = [
    "22 1 0:20 / / rw,relatime - overlay overlay rw,lowerdir=/run/vmapp/base,upperdir=/u",
    "23 22 254:0 / /run/vmapp/base ro,relatime - squashfs /dev/vda ro",
    "24 22 254:1 / /mnt/my\\040disk\\134x rw,relatime shared:5 master:1 - ext4 /dev/vdb rw,noatime",
    "25 22 254:1 / /ro rw - ext4 /dev/vdb ro,errors=continue",
    "26 22 254:1 / /readonly-mount ro - ext4 /dev/vdc rw",
    "a line of another form",
    "",
  ].join("\n");

  test("is read with its escapes, optional fields and the filesystem's own mode", () => {
    expect(parseMountTable(text)).toEqual([
      mounted("/", "overlay"),
      mounted("/run/vmapp/base", "squashfs", false),
      mounted("/mnt/my disk\\x", "ext4"),
      mounted("/ro", "ext4", false),
      mounted("/readonly-mount", "ext4"),
    ]);
  });
});

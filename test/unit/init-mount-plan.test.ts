import { describe, expect, test } from "bun:test";
import { planMounts } from "#init/mount-plan.ts";

describe("the plan for mounting", () => {
  test("mounts all of it on a bare root, parents before what lies in them", () => {
    const targets = planMounts(new Set()).map((row) => row.target);
    for (const [parent, child] of [
      ["/dev", "/dev/pts"],
      ["/dev", "/dev/shm"],
      ["/dev", "/dev/mqueue"],
      ["/sys", "/sys/fs/cgroup"],
    ] as const) {
      expect(targets).toContain(parent);
      expect(targets.indexOf(parent)).toBeLessThan(targets.indexOf(child));
    }
  });

  test("leaves out what is mounted already", () => {
    const targets = planMounts(new Set(["/proc", "/sys", "/dev", "/run", "/tmp"])).map((row) => row.target);
    expect(targets).toEqual(["/dev/pts", "/dev/shm", "/dev/mqueue", "/sys/fs/cgroup"]);
  });

  test("gives everybody terminals", () => {
    const row = planMounts(new Set()).find((each) => each.target === "/dev/pts");
    expect(row?.options.split(",")).toEqual(expect.arrayContaining(["gid=5", "ptmxmode=666"]));
  });

  test("covers only a /tmp that takes no files, and a tmpfs for all is sticky", () => {
    const rows = planMounts(new Set());
    expect(rows.filter((row) => row.unlessWritable).map((row) => row.target)).toEqual(["/tmp"]);
    for (const target of ["/tmp", "/dev/shm"])
      expect(rows.find((row) => row.target === target)?.options).toBe("mode=1777");
  });
});

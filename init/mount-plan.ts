/** Which filesystems PID 1 mounts itself: the rows, and the choice among them. Stage 0 has mounted the root and most of these. */
import type { MountRequest } from "#sys/mount.ts";

/** One mount; `unlessWritable` leaves a directory alone that already takes files: it only has to be open to everybody. */
export interface MountRow extends MountRequest {
  readonly unlessWritable: boolean;
}

type Row = Omit<MountRow, "unlessWritable"> & { unlessWritable?: true };

const rows: readonly Row[] = [
  { target: "/sys", type: "sysfs", source: "sysfs", flags: ["nosuid", "nodev", "noexec"], options: "" },
  { target: "/dev", type: "devtmpfs", source: "devtmpfs", flags: ["nosuid"], options: "mode=755" },
  {
    target: "/dev/pts",
    type: "devpts",
    source: "devpts",
    flags: ["nosuid", "noexec"],
    options: "gid=5,mode=620,ptmxmode=666",
  },
  { target: "/dev/shm", type: "tmpfs", source: "shm", flags: ["nosuid", "nodev"], options: "mode=1777" },
  { target: "/dev/mqueue", type: "mqueue", source: "mqueue", flags: ["nosuid", "nodev", "noexec"], options: "" },
  { target: "/run", type: "tmpfs", source: "run", flags: ["nosuid", "nodev"], options: "mode=755" },
  {
    target: "/tmp",
    type: "tmpfs",
    source: "tmp",
    flags: ["nosuid", "nodev"],
    options: "mode=1777",
    unlessWritable: true,
  },
  { target: "/sys/fs/cgroup", type: "cgroup2", source: "cgroup2", flags: ["nosuid", "nodev", "noexec"], options: "" },
];

/** The rows that are still to be mounted, in an order in which each finds its directory. */
export function planMounts(mounted: ReadonlySet<string>): MountRow[] {
  return rows
    .filter((row) => !mounted.has(row.target))
    .map((row) => ({ ...row, unlessWritable: row.unlessWritable ?? false }));
}

/** How the machine goes down, as ordered lists of steps: what to do, in which order, and how long each may take. */
import type { PowerAction } from "#sys/power.ts";
import type { MountEntry } from "./mount-table.ts";

/** Who gets a signal: everything but the services that carry sessions, only those, or both and whatever else there is. */
export type ProcessGroup = "workloads" | "session-carriers" | "everything";

export type PowerStep =
  | { readonly do: "stop-supervising" }
  | { readonly do: "signal"; readonly who: ProcessGroup; readonly signal: "SIGTERM" | "SIGKILL" }
  | { readonly do: "await-end"; readonly who: ProcessGroup; readonly limitMs: number }
  | { readonly do: "sync"; readonly limitMs: number }
  | { readonly do: "release-filesystems" }
  | { readonly do: "ask-kernel"; readonly action: PowerAction };

/**
 * The whole way down. Sessions' processes go before the agent that serves them, so that their clients are told how they
 * ended. Without the machine (PID 1 of a container) the filesystems belong to somebody else and are left alone.
 */
export function planPower({ action, ownsMachine }: { action: PowerAction; ownsMachine: boolean }): PowerStep[] {
  return [
    { do: "stop-supervising" },
    { do: "signal", who: "workloads", signal: "SIGTERM" },
    { do: "await-end", who: "workloads", limitMs: 2_000 },
    { do: "signal", who: "session-carriers", signal: "SIGTERM" },
    { do: "await-end", who: "session-carriers", limitMs: 1_500 },
    { do: "signal", who: "everything", signal: "SIGKILL" },
    { do: "await-end", who: "everything", limitMs: 1_000 },
    ...(ownsMachine ? ([{ do: "sync", limitMs: 3_000 }, { do: "release-filesystems" }] as const) : []),
    { do: "ask-kernel", action },
  ];
}

export type FilesystemStep =
  | {
      readonly do: "unmount";
      readonly target: string /** when it is busy */;
      readonly otherwise: "remount-read-only" | "detach";
    }
  | { readonly do: "remount-read-only"; readonly target: string };

/** how long one call for a step of {@link planFilesystems} may take */
export const filesystemLimitMs = 2_000;
/** how long all unmounts may take together, so that dead shares do not keep the root from becoming read-only */
export const unmountBudgetMs = 4_000;

/** filesystems in memory: nothing of them outlives the machine */
const inMemory = new Set([
  "autofs",
  "binfmt_misc",
  "bpf",
  "cgroup",
  "cgroup2",
  "configfs",
  "debugfs",
  "devpts",
  "devtmpfs",
  "efivarfs",
  "fusectl",
  "hugetlbfs",
  "mqueue",
  "nsfs",
  "proc",
  "pstore",
  "ramfs",
  "rootfs",
  "securityfs",
  "sysfs",
  "tmpfs",
  "tracefs",
]);
/** filesystems that the host or a network serves: what was written is there already */
const served = /^(virtiofs|9p|nfs4?|cifs|fuse(\..*)?)$/;
/** where stage 0 leaves the disk on which the root's upper directory lies */
const privateMounts = "/run/vmapp/";

/**
 * Leaves every filesystem that takes writes unmounted or read-only. Later mounts first, as they may lie on earlier ones;
 * then the root, which cannot be unmounted; then the disks under it, which take writes until the root is read-only.
 */
export function planFilesystems(mounts: readonly MountEntry[]): FilesystemStep[] {
  const lasting = mounts.filter((mount) => mount.writable && !inMemory.has(mount.type)).reverse();
  const underRoot = lasting.filter((mount) => mount.target.startsWith(privateMounts));
  const root = lasting.filter((mount) => mount.target === "/");
  const others = lasting.filter((mount) => !underRoot.includes(mount) && !root.includes(mount));
  return [
    ...others.map(
      (mount): FilesystemStep => ({
        do: "unmount",
        target: mount.target,
        otherwise: served.test(mount.type) ? "detach" : "remount-read-only",
      }),
    ),
    ...[...root, ...underRoot].map((mount): FilesystemStep => ({ do: "remount-read-only", target: mount.target })),
  ];
}

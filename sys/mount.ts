/** Mounting, remounting and unmounting. Each call blocks for as long as the filesystem behind it does. */
import { check, cString, libc } from "./libc.ts";

const MS_RDONLY = 1;
const MS_REMOUNT = 32;
const MNT_DETACH = 2;

export const mountFlags = { nosuid: 2, nodev: 4, noexec: 8 } as const;
export type MountFlag = keyof typeof mountFlags;

export interface MountRequest {
  /** device, or a name of its own for a filesystem that has none */
  readonly source: string;
  readonly target: string;
  readonly type: string;
  readonly flags: readonly MountFlag[];
  /** options of the filesystem itself, comma-separated, e.g. `mode=755` */
  readonly options: string;
}

/** `mount(2)`. Errors: SysError with the target named (EBUSY, ENODEV: no such type in this kernel, ENOENT, EPERM). */
export function mountFilesystem({ source, target, type, flags, options }: MountRequest): void {
  const bits = flags.reduce((sum, flag) => sum | mountFlags[flag], 0);
  check("mount", libc.mount(cString(source), cString(target), cString(type), bits, cString(options)), target);
}

/** Makes the whole filesystem at `target` read-only, wherever else it is mounted. Errors: SysError (EBUSY: open for writing). */
export function remountReadOnly(target: string): void {
  check("mount", libc.mount(null, cString(target), null, MS_REMOUNT | MS_RDONLY, null), `${target} read-only`);
}

/** `umount2(2)`. With `detach` the name goes at once and the filesystem when its last user does. */
export function unmount(target: string, { detach }: { detach: boolean }): void {
  check("umount2", libc.umount2(cString(target), detach ? MNT_DETACH : 0), target);
}

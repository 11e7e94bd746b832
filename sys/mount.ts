/** Mounting, remounting and unmounting. Each call blocks for as long as the filesystem behind it does. */
import { SysError } from "./errors.ts";
import { check, cString, errno, libc } from "./libc.ts";

const MS_RDONLY = 1;
const MS_REMOUNT = 32;
const MS_BIND = 4096;
const MNT_DETACH = 2;

export const mountFlags = { rdonly: MS_RDONLY, nosuid: 2, nodev: 4, noexec: 8 } as const;
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

/** Makes the directory `source` appear at `target` too, for reading only if asked. Errors: SysError with the target named. */
export function bindDirectory({
  source,
  target,
  readOnly,
}: {
  source: string;
  target: string;
  readOnly: boolean;
}): void {
  check("mount", libc.mount(cString(source), cString(target), null, MS_BIND, null), target);
  if (!readOnly) return;
  // The kernel ignores MS_RDONLY in the call that binds; a second one makes the new mount, and only it, read-only.
  const bits = MS_BIND | MS_REMOUNT | MS_RDONLY;
  const result = libc.mount(null, cString(target), null, bits, null);
  if (result < 0) {
    const error = new SysError("mount", errno(), `${target} read-only`);
    unmount(target, { detach: true });
    throw error;
  }
}

/** `umount2(2)`. With `detach` the name goes at once and the filesystem when its last user does. */
export function unmount(target: string, { detach }: { detach: boolean }): void {
  check("umount2", libc.umount2(cString(target), detach ? MNT_DETACH : 0), target);
}

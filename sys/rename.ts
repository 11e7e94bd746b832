import { check, cString, libc } from "./libc.ts";

const AT_FDCWD = -100;
const RENAME_NOREPLACE = 1;

/**
 * Renames atomically and never replaces: fails with EEXIST where `to` exists. Errors: SysError (EEXIST, ENOENT, EXDEV across
 * filesystems, EINVAL where the filesystem cannot do it, EBUSY).
 */
export function renameNoReplace(from: string, to: string): void {
  const result = libc.renameat2(AT_FDCWD, cString(from), AT_FDCWD, cString(to), RENAME_NOREPLACE);
  check("rename", result, `${from} to ${to}`);
}

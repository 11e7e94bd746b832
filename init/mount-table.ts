/** What is mounted, as `/proc/self/mountinfo` says it. */

export interface MountEntry {
  readonly target: string;
  /** filesystem type, e.g. `ext4` */
  readonly type: string;
  /** whether the filesystem itself takes writes, through whatever mount */
  readonly writable: boolean;
}

/** Parses mountinfo in its own order, in which a mount comes after the one it lies on. Lines of another form are left out. */
export function parseMountTable(text: string): MountEntry[] {
  const entries: MountEntry[] = [];
  for (const line of text.split("\n")) {
    const [left, right] = line.split(" - ");
    const target = left?.split(" ")[4];
    const [type, , superOptions] = right?.split(" ") ?? [];
    if (target === undefined || type === undefined || superOptions === undefined) continue;
    entries.push({ target: unescapePath(target), type, writable: superOptions.split(",")[0] === "rw" });
  }
  return entries;
}

/** The kernel writes space, tab, newline and backslash as three octal digits. */
function unescapePath(text: string): string {
  return text.replace(/\\([0-7]{3})/g, (_, digits: string) => String.fromCharCode(Number.parseInt(digits, 8)));
}

const units = ["B", "KiB", "MiB", "GiB", "TiB"] as const;

/** `1.5 MiB`: three digits at most, for people. */
export function formatBytes(bytes: number): string {
  let value = bytes;
  let unit = 0;
  while (value >= 1000 && unit < units.length - 1) {
    value /= 1024;
    unit++;
  }
  const digits = unit === 0 || value >= 100 ? 0 : 1;
  return `${value.toFixed(digits)} ${units[unit] ?? "B"}`;
}

/**
 * Whether a name from a guest may become the name of a file on the host: one component, neither `.` nor `..`, no separator of any
 * system, no control character, at most 255 bytes.
 */
export function isPlainName(name: string): boolean {
  return (
    name !== "" &&
    name !== "." &&
    name !== ".." &&
    !/[/\\\x00-\x1f\x7f]/.test(name) &&
    new TextEncoder().encode(name).length <= 255
  );
}

/** Text that a guest chose, with its control characters as `\xNN`: it must not steer the terminal. */
export function visible(text: string): string {
  return text.replace(/[\x00-\x1f\x7f-\x9f]/g, (char) => `\\x${char.charCodeAt(0).toString(16).padStart(2, "0")}`);
}

/** JSON of what a guest said, with the control characters that JSON leaves as they are escaped too: the same value. */
export function visibleJson(json: string): string {
  return json.replace(/[\x7f-\x9f]/g, (char) => `\\u00${char.charCodeAt(0).toString(16)}`);
}

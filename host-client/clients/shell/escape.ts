/** The escapes that a user types at the start of a line, as ssh has them. Pure: bytes in, actions out. */

export type EscapeAction =
  /** input for the command */
  | { readonly kind: "input"; readonly bytes: Uint8Array }
  /** `~.` */
  | { readonly kind: "disconnect" }
  /** `~^Z` */
  | { readonly kind: "suspend" }
  /** `~?` */
  | { readonly kind: "help" };

/** What `~?` shows. */
export const escapeHelp = [
  "Supported escapes, at the start of a line:",
  " ~.   disconnect",
  " ~^Z  suspend vmapp",
  " ~~   send a ~",
  " ~?   this list",
] as const;

const tilde = 0x7e;
const lineEnds: ReadonlySet<number | undefined> = new Set([0x0a, 0x0d]);

const commands: ReadonlyMap<number, "disconnect" | "suspend" | "help"> = new Map([
  [0x2e, "disconnect"],
  [0x1a, "suspend"],
  [0x3f, "help"],
]);

type State =
  | "lineStart"
  | "inLine"
  /** a `~` at the start of a line was held back */
  | "escaped";

export class EscapeFilter {
  #state: State = "lineStart";

  /** Takes what was typed and says what becomes of it, in order. Nothing behind a disconnect is looked at. */
  push(typed: Uint8Array): EscapeAction[] {
    const actions: EscapeAction[] = [];
    let from = 0;
    const flush = (to: number): void => {
      if (to > from) actions.push({ kind: "input", bytes: typed.subarray(from, to) });
    };
    for (let index = 0; index < typed.length; index++) {
      const byte = typed[index];
      if (this.#state === "escaped") {
        const command = byte === undefined ? undefined : commands.get(byte);
        if (command !== undefined) {
          actions.push({ kind: command });
          if (command === "disconnect") return actions;
          from = index + 1;
          this.#state = "lineStart";
          continue;
        }
        // Not an escape: the held `~` goes first. Of `~~` one goes, and that is the one held.
        actions.push({ kind: "input", bytes: Uint8Array.of(tilde) });
        from = byte === tilde ? index + 1 : index;
        this.#state = byte !== tilde && lineEnds.has(byte) ? "lineStart" : "inLine";
      } else if (this.#state === "lineStart" && byte === tilde) {
        flush(index);
        from = index + 1;
        this.#state = "escaped";
      } else {
        this.#state = lineEnds.has(byte) ? "lineStart" : "inLine";
      }
    }
    if (this.#state !== "escaped") flush(typed.length);
    return actions;
  }
}

/**
 * What programs have switched on at the local terminal. A program that ends switches it off again; one whose session is cut
 * cannot, and would leave the user in the alternate screen, without a cursor, with a mouse that types. Pure.
 */

const escapeByte = 0x1b;

/** DEC private modes that a shell expects off. The alternate screen comes last, as it also brings the cursor back. */
const offModes: readonly number[] = [9, 1000, 1001, 1002, 1003, 1004, 1005, 1006, 1015, 1016, 2004, 1, 47, 1047, 1049];
/** the cursor, which a shell expects on */
const cursorMode = 25;

/** `ESC [ ? 1 ; 2 h` and `l`: set and reset */
const privateMode = /\x1b\[\?([0-9;]{1,64})([hl])/g;
/** the longest piece of a sequence that a chunk may end with */
const maxPartial = 72;
const partialSequence = /\x1b(?:\[(?:\?[0-9;]*)?)?$/;

export class ScreenModes {
  /** the modes that are not as a shell expects them */
  readonly #changed = new Set<number>();
  #partial = "";

  /** Looks at output that goes to the screen. */
  watch(output: Uint8Array): void {
    if (this.#partial === "" && output.indexOf(escapeByte) < 0) return;
    const text = this.#partial + Buffer.from(output.buffer, output.byteOffset, output.byteLength).toString("latin1");
    for (const [, modes = "", action] of text.matchAll(privateMode)) {
      for (const mode of modes.split(";").map(Number)) this.#note(mode, action === "h");
    }
    this.#partial = partialSequence.exec(text.slice(-maxPartial))?.[0] ?? "";
  }

  /** What to write so that a shell finds the terminal as it expects it; empty when it does. */
  restoration(): string {
    const off = offModes.filter((mode) => this.#changed.has(mode)).map((mode) => `\x1b[?${mode}l`);
    if (this.#changed.has(cursorMode)) off.unshift(`\x1b[?${cursorMode}h`);
    return off.length === 0 ? "" : `\x1b[0m${off.join("")}`;
  }

  #note(mode: number, on: boolean): void {
    if (on === (mode === cursorMode)) this.#changed.delete(mode);
    else if (mode === cursorMode || offModes.includes(mode)) this.#changed.add(mode);
  }
}

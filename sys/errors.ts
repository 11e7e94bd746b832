import { constants } from "node:os";

const names = new Map<number, string>(Object.entries(constants.errno).map(([name, number]) => [number, name]));

/** A libc call that failed: which call, on what, and why. */
export class SysError extends Error {
  override readonly name = "SysError";
  /** symbolic name of the errno, e.g. `ENOENT`; `E<number>` where the name is not known */
  readonly code: string;

  constructor(
    /** libc function, e.g. `mount` */
    readonly call: string,
    /** positive errno value */
    readonly errno: number,
    /** what the call was about, e.g. a path or `port 1027` */
    readonly subject?: string,
  ) {
    const code = names.get(errno) ?? `E${errno}`;
    super(subject === undefined ? `${call}: ${code}` : `${call} ${subject}: ${code}`);
    this.code = code;
  }
}

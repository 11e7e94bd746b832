/**
 * The `start` payload ("The start frame"), declared once for both ends; decode-start.ts is how an agent reads it. Keys are
 * frozen; `env`, `cwd`, `user`, `session` and `since` are extensions of ours that a client sends only to an agent whose
 * hello lists the capability.
 */

export const defaultRows = 24;
export const defaultCols = 80;
export const defaultTerm = "xterm-256color";
export const loginShell: readonly string[] = ["/bin/sh", "-l"];

/** stdin bytes granted up front to a client that asked for flow control */
export const initialCredit = 262_144;

/** capabilities that the control hello lists for the extension keys */
export const shellCaps = {
  env: "shell.env",
  cwd: "shell.cwd",
  user: "shell.user",
  session: "shell.session",
} as const;

/** A start as a client states it; what is absent takes the contract's default. */
export interface ShellStart {
  /** command and arguments; absent or empty: a login shell */
  readonly argv?: readonly string[];
  readonly tty?: boolean;
  /** initial height of the pty in cells; 0: 24 */
  readonly rows?: number;
  /** initial width of the pty in cells; 0: 80 */
  readonly cols?: number;
  readonly term?: string;
  /** asks for stdin flow control */
  readonly flow?: boolean;
  /** extension: merged over the session's environment */
  readonly env?: Readonly<Record<string, string>>;
  /** extension: working directory */
  readonly cwd?: string;
  /** extension: name, uid, or uid:gid */
  readonly user?: string;
  /** extension: name of a session that outlives its connection */
  readonly session?: string;
  /** extension: replay a named session's output from this byte offset */
  readonly since?: number;
}

/** A start with every default filled in. */
export interface ResolvedStart {
  readonly argv: readonly string[];
  readonly tty: boolean;
  readonly rows: number;
  readonly cols: number;
  readonly term: string;
  readonly flow: boolean;
  readonly env: Readonly<Record<string, string>>;
  readonly cwd: string | undefined;
  readonly user: string | undefined;
  readonly session: string | undefined;
  readonly since: number | undefined;
}

export function encodeStart(start: ShellStart): Uint8Array {
  return new TextEncoder().encode(JSON.stringify(start));
}

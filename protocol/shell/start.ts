/**
 * The `start` payload ("The start frame"), declared once for both ends. Keys are frozen; `env`, `cwd`, `user`, `session` and
 * `since` are extensions of ours that a client sends only to an agent whose hello lists the capability.
 */
import { z } from "zod";

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

const cells = z.int().min(0).max(0xffff);

const startSchema = z.object({
  argv: z.array(z.string()).nullish(),
  tty: z.boolean().nullish(),
  rows: cells.nullish(),
  cols: cells.nullish(),
  term: z.string().nullish(),
  flow: z.boolean().nullish(),
  env: z.record(z.string(), z.string()).nullish(),
  cwd: z.string().nullish(),
  user: z.string().nullish(),
  session: z.string().min(1).max(64).nullish(),
  since: z.int().min(0).nullish(),
});

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

/** Why a start payload was refused; the message goes behind `protocol error: ` to the client. */
export class StartError extends Error {
  override readonly name = "StartError";
}

/** Parses and completes a start payload. Throws {@link StartError} naming the key and what was expected. */
export function decodeStart(payload: Uint8Array): ResolvedStart {
  let json: unknown;
  try {
    json = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(payload));
  } catch (error) {
    throw new StartError(`start is not valid JSON: ${error instanceof Error ? error.message : String(error)}`);
  }
  const result = startSchema.safeParse(json);
  if (!result.success) {
    const issue = result.error.issues[0];
    const path = issue === undefined || issue.path.length === 0 ? "start" : issue.path.join(".");
    throw new StartError(`${path}: ${issue?.message ?? "invalid"}`);
  }
  const { argv, tty, rows, cols, term, flow, env, cwd, user, session, since } = result.data;
  return {
    argv: argv === undefined || argv === null || argv.length === 0 ? loginShell : argv,
    tty: tty ?? false,
    rows: rows || defaultRows,
    cols: cols || defaultCols,
    term: term || defaultTerm,
    flow: flow ?? false,
    env: env ?? {},
    cwd: cwd ?? undefined,
    user: user ?? undefined,
    session: session ?? undefined,
    since: since ?? undefined,
  };
}

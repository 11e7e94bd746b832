/** How an agent reads a `start` payload: apart from start.ts, so that a client does not load the schema. */
import { z } from "zod";
import { defaultCols, defaultRows, defaultTerm, loginShell, type ResolvedStart } from "./start.ts";

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

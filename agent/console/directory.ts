/** The session's own `cd`: lexical, so that a path keeps the spelling that the client gave it. */
import { stat } from "node:fs/promises";
import { errorText } from "./file-error.ts";

export type Move =
  | { readonly kind: "moved"; readonly cwd: string }
  | { readonly kind: "stays"; readonly reason: string };

export interface MoveRequest {
  /** what follows `cd` */
  readonly words: readonly string[];
  readonly cwd: string | undefined;
  readonly home: string | undefined;
}

/** Where the session stands afterwards, or why it stays: a result of the command, never an error of the call. */
export async function changeDirectory({ words, cwd, home }: MoveRequest): Promise<Move> {
  if (words.length > 1) return { kind: "stays", reason: "too many arguments" };
  const [word] = words;
  if (word === undefined && home === undefined) {
    return { kind: "stays", reason: "this session stands nowhere to return to" };
  }
  if (word !== undefined && !word.startsWith("/") && cwd === undefined) {
    return { kind: "stays", reason: `${word}: this session stands nowhere to start from` };
  }
  const target = word === undefined ? (home as string) : cleanPath(word.startsWith("/") ? word : `${cwd}/${word}`);
  try {
    const found = await stat(target);
    if (!found.isDirectory()) return { kind: "stays", reason: `${target}: not a directory` };
  } catch (error) {
    return { kind: "stays", reason: `${target}: ${errorText(error)}` };
  }
  return { kind: "moved", cwd: target };
}

/** Drops `.` and empty parts and pops on `..`; the root stays the root. Links are not looked at. */
function cleanPath(path: string): string {
  const parts: string[] = [];
  for (const part of path.split("/")) {
    if (part === "..") parts.pop();
    else if (part !== "" && part !== ".") parts.push(part);
  }
  return `/${parts.join("/")}`;
}

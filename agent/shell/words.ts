/** What no kernel would take as a command's arguments and environment: a pty cannot report a failed exec any more. */
import { readFileSync } from "node:fs";

/** longest argument or environment variable that Linux takes (MAX_ARG_STRLEN), in bytes with its terminator */
const maxWordBytes = 128 * 1024;
/** what Linux takes of all words together, in bytes: at least this much whatever the stack's limit (ARG_MAX) … */
const minTotalBytes = 128 * 1024;
/** … and at most three quarters of its default stack */
const maxTotalBytes = 6 * 1024 * 1024;
const pointerBytes = 8;
/** the path of the file stands among the words, and that of a script's interpreter */
const pathsBytes = 2 * 4096;

/** Why these words cannot be handed to a command, or undefined. */
export function wordsRefusal(argv: readonly string[], env: Readonly<Record<string, string>>): string | undefined {
  if (argv.some((argument) => argument.includes("\0"))) return "a NUL byte in an argument";
  const variables = Object.entries(env);
  if (variables.some(([key, value]) => key === "" || /[=\0]/.test(key) || value.includes("\0")))
    return "an environment variable with an impossible name or a NUL byte";
  let total = pathsBytes;
  for (const word of [...argv, ...variables.map(([key, value]) => `${key}=${value}`)]) {
    const bytes = Buffer.byteLength(word) + 1;
    if (bytes > maxWordBytes) return "argument list too long";
    total += bytes + pointerBytes;
  }
  return total > minTotalBytes && total > totalLimit() ? "argument list too long" : undefined;
}

function totalLimit(): number {
  const [, soft] = /^Max stack size\s+(\d+)/m.exec(readFileSync("/proc/self/limits", "latin1")) ?? [];
  return soft === undefined ? maxTotalBytes : Math.max(minTotalBytes, Math.min(maxTotalBytes, Number(soft) / 4));
}

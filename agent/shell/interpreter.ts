/** Whether what runs a file (the loader of a program, the interpreter of a script) can itself be run. */
import { existsSync } from "node:fs";
import { mayExecute } from "#sys/credentials.ts";

/** Why it cannot, as the identity of this thread, or undefined. */
export function interpreterRefusal(path: string): string | undefined {
  if (!existsSync(path)) return `its interpreter ${JSON.stringify(path)} does not exist`;
  return mayExecute(path) ? undefined : `permission denied for its interpreter ${JSON.stringify(path)}`;
}

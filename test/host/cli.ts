/** The CLI of this checkout as a process of its own. */
import { join } from "node:path";

const script = join(import.meta.dirname, "../../host-client/cli/main.ts");

export interface CliResult {
  code: number;
  stdout: string;
  stderr: string;
}

export interface CliOptions {
  stdin?: Uint8Array | Blob | undefined;
  env?: Readonly<Record<string, string>> | undefined;
}

/** The command line of `vmapp` with these arguments. */
export function cliCommand(args: readonly string[]): [string, ...string[]] {
  return [process.execPath, script, ...args];
}

/** Starts `vmapp` with these arguments. */
export function spawnCli(args: readonly string[], { stdin, env }: CliOptions = {}) {
  return Bun.spawn(cliCommand(args), {
    stdin: stdin ?? "ignore",
    stdout: "pipe",
    stderr: "pipe",
    env: { ...process.env, ...env },
  });
}

/** Runs `vmapp` with these arguments to its end. */
export async function runCli(args: readonly string[], options: CliOptions = {}): Promise<CliResult> {
  const child = spawnCli(args, options);
  const [code, stdout, stderr] = await Promise.all([
    child.exited,
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
  ]);
  return { code, stdout, stderr };
}

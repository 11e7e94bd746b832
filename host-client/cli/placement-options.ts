import { type Command, InvalidArgumentError } from "commander";
import type { ShellStart } from "#protocol/shell/start.ts";

/** Where and as whom a command runs: `-e`, `-w` and `-u`, as docker has them. */
export interface PlacementOptions {
  env?: Record<string, string>;
  workdir?: string;
  user?: string;
}

export function addPlacementOptions(command: Command): Command {
  return command
    .option("-e, --env <name[=value]>", "set a variable; without a value, to that of ours (repeatable)", addVariable)
    .option("-w, --workdir <dir>", "run it in this directory of the guest")
    .option("-u, --user <user>", "run it as this user: NAME, UID or UID:GID");
}

/** The extension keys of a start frame that were asked for. */
export function placementOf({ env, workdir, user }: PlacementOptions): Pick<ShellStart, "env" | "cwd" | "user"> {
  return {
    ...(env !== undefined && { env }),
    ...(workdir !== undefined && { cwd: workdir }),
    ...(user !== undefined && { user }),
  };
}

function addVariable(text: string, before: Record<string, string> | undefined): Record<string, string> {
  const equals = text.indexOf("=");
  const name = equals < 0 ? text : text.slice(0, equals);
  if (name === "") throw new InvalidArgumentError("Give NAME=VALUE, or NAME for a variable of ours.");
  const value = equals < 0 ? process.env[name] : text.slice(equals + 1);
  // As docker has it: a variable that is not set here is not set there.
  return value === undefined ? { ...before } : { ...before, [name]: value };
}

import { Command } from "commander";
import { findVm } from "../../vm/resolve.ts";
import { stopKnownVm } from "../../vm/stop-known.ts";
import { describeFailure, failureStatus } from "../failure.ts";
import { note, printLine } from "../output.ts";

export function stopCommand(): Command {
  return new Command("stop")
    .description("power VMs off")
    .argument("<name...>", "names of VMs, as vmapp list shows them")
    .option("--rm", "remove their state directories afterwards, with console log and session disk")
    .addHelpText(
      "after",
      `
The guest is asked to power off; if it does not within 15 s, QEMU is told to quit, and killed if it does not.
What is printed says which step ended it.

Example:
  vmapp stop a b`,
    )
    .action(async (names: string[], options: { rm?: true }) => {
      for (const name of names) {
        try {
          const done = await stopKnownVm(findVm(name), { remove: options.rm ?? false });
          await printLine(`${name}: ${done}`);
        } catch (error) {
          // The others are stopped all the same.
          note(`cannot stop ${name}: ${describeFailure(error)}`);
          process.exitCode = failureStatus;
        }
      }
    });
}

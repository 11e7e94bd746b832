import { Command } from "commander";
import { checkHost, type HostCheck } from "../../vm/host-checks.ts";
import { printLine } from "../output.ts";

/** Exit status when the host lacks something. */
const lackingStatus = 1;

export function doctorCommand(): Command {
  return new Command("doctor")
    .description("show what this host has and lacks for running VMs, and the command that mends each")
    .option("--json", "print one JSON array for machines")
    .addHelpText("after", `\nExit status: 0 when VMs can run here, ${lackingStatus} when something is lacking.`)
    .action(async (options: { json?: true }) => {
      const checks = await checkHost();
      if (options.json) await printLine(JSON.stringify(checks, null, 2));
      else for (const check of checks) await printLine(describe(check));
      if (checks.some((check) => check.status === "lacking")) process.exitCode = lackingStatus;
    });
}

function describe({ what, status, found, mend }: HostCheck): string {
  const line = `${status.padEnd(8)} ${what}: ${found}`;
  return mend === undefined ? line : `${line}\n         mend it: ${mend}`;
}

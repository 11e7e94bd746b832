import { Command } from "commander";
import { cpCommand } from "./commands/cp.ts";
import { doctorCommand } from "./commands/doctor.ts";
import { execCommand } from "./commands/exec.ts";
import { listCommand } from "./commands/list.ts";
import { logsCommand } from "./commands/logs.ts";
import { lsCommand } from "./commands/ls.ts";
import { mkdirCommand } from "./commands/mkdir.ts";
import { mvCommand } from "./commands/mv.ts";
import { ownVmCommand } from "./commands/own-vm.ts";
import { proxyCommand } from "./commands/proxy.ts";
import { rmCommand } from "./commands/rm.ts";
import { runCliCommand } from "./commands/run.ts";
import { shellCommand } from "./commands/shell.ts";
import { statsCommand } from "./commands/stats.ts";
import { stopCommand } from "./commands/stop.ts";
import { updateCommand } from "./commands/update.ts";
import { version, versionCommand } from "./commands/version.ts";

/** The whole command line. Commander's own exits become errors, so that output is never cut off. */
export function buildProgram(): Command {
  const program = new Command("vmapp")
    .description("Run micro-VMs and use what is in them.")
    .version(version, "-V, --version", "print the version")
    .enablePositionalOptions()
    .showHelpAfterError("(see: vmapp help, or vmapp COMMAND --help)")
    .addHelpText(
      "after",
      `
A guest is named by the NAME of a VM that vmapp started, or by its address: vsock:CID, hybrid:/path/of/socket (as
Firecracker and Cloud Hypervisor serve it), unix:/directory/of/sockets.

Start here:
  vmapp doctor                       what this host has and lacks
  vmapp run                          a shell in a fresh guest
  vmapp run --name a --detach        a guest that stays
  vmapp exec a -- uname -a
  vmapp stop a`,
    );
  for (const command of [
    runCliCommand(),
    listCommand(),
    shellCommand(),
    proxyCommand(),
    execCommand(),
    cpCommand(),
    lsCommand(),
    mkdirCommand(),
    rmCommand(),
    mvCommand(),
    statsCommand(),
    updateCommand(),
    logsCommand(),
    stopCommand(),
    doctorCommand(),
    versionCommand(),
  ]) {
    program.addCommand(command);
  }
  program.addCommand(ownVmCommand(), { hidden: true });
  for (const command of [program, ...program.commands]) command.exitOverride();
  return program;
}

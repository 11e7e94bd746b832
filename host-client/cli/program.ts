import { Command, type OutputConfiguration } from "commander";
import { version, versionCommand } from "./commands/version.ts";
import { standardError, standardOutput } from "./output.ts";

/**
 * Every command by its name, in the order of the help. Each is loaded when it is needed: what a start loads is most of what
 * a short command costs.
 */
const commands: Readonly<Record<string, () => Promise<Command>>> = {
  run: async () => (await import("./commands/run.ts")).runCliCommand(),
  list: async () => (await import("./commands/list.ts")).listCommand(),
  shell: async () => (await import("./commands/shell.ts")).shellCommand(),
  sessions: async () => (await import("./commands/sessions.ts")).sessionsCommand(),
  proxy: async () => (await import("./commands/proxy.ts")).proxyCommand(),
  exec: async () => (await import("./commands/exec.ts")).execCommand(),
  cp: async () => (await import("./commands/cp.ts")).cpCommand(),
  ls: async () => (await import("./commands/ls.ts")).lsCommand(),
  mkdir: async () => (await import("./commands/mkdir.ts")).mkdirCommand(),
  rm: async () => (await import("./commands/rm.ts")).rmCommand(),
  mv: async () => (await import("./commands/mv.ts")).mvCommand(),
  stats: async () => (await import("./commands/stats.ts")).statsCommand(),
  update: async () => (await import("./commands/update.ts")).updateCommand(),
  app: async () => (await import("./commands/app.ts")).appCommand(),
  logs: async () => (await import("./commands/logs.ts")).logsCommand(),
  stop: async () => (await import("./commands/stop.ts")).stopCommand(),
  bench: async () => (await import("./commands/bench.ts")).benchCommand(),
  doctor: async () => (await import("./commands/doctor.ts")).doctorCommand(),
  version: async () => versionCommand(),
};

/** run by vmapp itself, and not in the help */
const hiddenCommands: typeof commands = {
  "own-vm": async () => (await import("./commands/own-vm.ts")).ownVmCommand(),
};

const commanderOutput: OutputConfiguration = {
  writeOut: (text) => standardOutput().write(text),
  writeErr: (text) => standardError().write(text),
};

/** The command line, for `words` behind the program's name: whole, or as much as they need. Commander's own exits become errors, so that output is never cut off. */
export async function buildProgram(words: readonly string[]): Promise<Command> {
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
  const [first = ""] = words;
  const only = Object.hasOwn(commands, first) ? commands[first] : undefined;
  if (only !== undefined) {
    program.addCommand(await only());
  } else {
    for (const load of Object.values(commands)) program.addCommand(await load());
    for (const load of Object.values(hiddenCommands)) program.addCommand(await load(), { hidden: true });
  }
  for (const command of [program, ...program.commands]) command.exitOverride().configureOutput(commanderOutput);
  return program;
}

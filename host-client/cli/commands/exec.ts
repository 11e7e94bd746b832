import { Command } from "commander";
import { GuestLink } from "../../guest-link.ts";
import { addPlacementOptions, type PlacementOptions, placementOf } from "../placement-options.ts";
import { runCommand } from "../run-command.ts";
import { runOnTerminal } from "../run-terminal.ts";

interface ExecOptions extends PlacementOptions {
  interactive?: true;
  tty?: true;
}

export function execCommand(): Command {
  const command = new Command("exec")
    .description("run a command in a guest; its output, errors and exit status become ours")
    .usage("[options] TARGET -- COMMAND [ARGUMENT...]")
    .argument("<target>", "NAME of a VM, vsock:CID, hybrid:/path or unix:/dir")
    .argument("<command...>", "the command and its arguments; no shell is involved")
    .option("-i, --interactive", "pass standard input on; without it the command's input is empty")
    .option("-t, --tty", "run it on a terminal of its own, which is joined to ours");
  return addPlacementOptions(command)
    .passThroughOptions()
    .addHelpText(
      "after",
      `
Exit status: the command's; 128 + n when signal n killed it; 127 when there is no such command;
255 when vmapp itself failed, with the reason on standard error.

Examples:
  vmapp exec a -- uname -a
  vmapp exec a -- sh -c 'echo out; echo err >&2; exit 7'
  tar -c dir | vmapp exec -i a -- tar -x -C /tmp
  vmapp exec -it a -- vi /etc/hosts
  vmapp exec -u nobody -w /tmp -e LANG=C a -- env
  vmapp exec hybrid:/run/firecracker/v.sock -- ps`,
    )
    .action(async (target: string, words: string[], options: ExecOptions) => {
      // What follows the target is passed through untouched, so the separator is still there.
      const argv = words[0] === "--" ? words.slice(1) : words;
      if (argv.length === 0)
        throw new Error(`no command to run in ${target}; write one after --, or: vmapp shell ${target}`);
      const stdin = options.interactive ?? false;
      if (options.tty && stdin && !process.stdin.isTTY) throw new Error("the input device is not a TTY; leave out -t");
      const run = options.tty ? runOnTerminal : runCommand;
      process.exitCode = await run(await GuestLink.to(target), { argv, ...placementOf(options) }, { stdin });
    });
}

import { Command } from "commander";
import { GuestLink } from "../../guest-link.ts";
import { chooseGuest } from "../choose-guest.ts";
import { addPlacementOptions, type PlacementOptions, placementOf } from "../placement-options.ts";
import { runCommand } from "../run-command.ts";
import { isAtTerminal, runOnTerminal } from "../run-terminal.ts";

interface ShellOptions extends PlacementOptions {
  session?: string;
}

export function shellCommand(): Command {
  const command = new Command("shell")
    .description("open a shell in a guest, or run a command at this terminal")
    .usage("[options] [TARGET] [-- COMMAND [ARGUMENT...]]")
    .argument("[target]", "NAME of a VM, vsock:CID, hybrid:/path or unix:/dir; default: the VM that is running")
    .argument("[command...]", "a command instead of the login shell")
    .option("--session <name>", "a session that outlives the connection: started, or attached to if it is there");
  return addPlacementOptions(command)
    .passThroughOptions()
    .addHelpText(
      "after",
      `
At a terminal the command runs on a terminal in the guest, and every key goes there. At the start of a line, ~. disconnects,
~^Z suspends vmapp, and ~? lists the escapes. Without a terminal it runs on pipes, as with "vmapp exec -i".

Exit status: the command's; 128 + n when signal n killed it or vmapp; 255 when vmapp itself failed or was disconnected.

Examples:
  vmapp shell                        a login shell in the VM that is running
  vmapp shell a -- top
  vmapp shell --session work a       go on where that session was left
  echo uname -a | vmapp shell a`,
    )
    .action(async (target: string | undefined, words: string[], options: ShellOptions, command: Command) => {
      const { name, argv } = splitWords(target === undefined ? [] : [target, ...words], command);
      const guest = await GuestLink.to(name ?? (await chooseGuest()));
      const { session } = options;
      const start = { argv, ...placementOf(options), ...(session !== undefined && { session }) };
      process.exitCode = await (isAtTerminal() ? runOnTerminal : runCommand)(guest, start, { stdin: true });
    });
}

/** Tells `shell a`, `shell a -- ls` and `shell -- ls` apart: commander drops a separator that stands first. */
function splitWords(words: readonly string[], command: Command): { name: string | undefined; argv: string[] } {
  const raw = command.parent === null ? [] : (command.parent as Command & { rawArgs: string[] }).rawArgs;
  const separator = raw.indexOf("--");
  const behind = separator < 0 ? -1 : raw.length - separator - 1;
  if (words.length === behind) return { name: undefined, argv: [...words] };
  const [name, ...rest] = words;
  return { name, argv: rest[0] === "--" ? rest.slice(1) : rest };
}

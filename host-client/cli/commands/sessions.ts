import { Command } from "commander";
import type { NamedSessionInfo } from "#protocol/control/replies.ts";
import { namedSessions } from "../../clients/control/named-sessions.ts";
import { withConnection } from "../../clients/control/one-shot.ts";
import { GuestLink } from "../../guest-link.ts";
import { formatBytes } from "../byte-size.ts";
import { printLine } from "../output.ts";
import { formatTable } from "../table.ts";
import { visible } from "../visible.ts";

export function sessionsCommand(): Command {
  return new Command("sessions")
    .description("list the named shell sessions of a guest")
    .argument("<target>", "NAME of a VM, vsock:CID, hybrid:/path or unix:/dir")
    .option("--json", "print one JSON array for machines")
    .addHelpText(
      "after",
      `
A session is started, and attached to again, with: vmapp shell --session NAME TARGET
The exit status of one that has ended is kept for some minutes.`,
    )
    .action(async (target: string, options: { json?: true }) => {
      const guest = await GuestLink.to(target);
      const sessions = await withConnection({ target: guest.target }, namedSessions).catch((error: unknown) => {
        throw guest.explain(error);
      });
      await printLine(options.json ? JSON.stringify(sessions, null, 2) : table(sessions));
    });
}

function table(sessions: readonly NamedSessionInfo[]): string {
  const rows = sessions.map(({ name, attached, exitCode, pid, startedAt, outputBytes, argv }) => [
    visible(name),
    exitCode === undefined ? (attached ? "attached" : "detached") : `exited (${exitCode})`,
    String(pid),
    new Date(startedAt * 1000).toISOString().slice(0, 19).replace("T", " "),
    formatBytes(outputBytes),
    argv.map(printable).join(" "),
  ]);
  return formatTable(["NAME", "STATE", "PID", "STARTED (UTC)", "OUTPUT", "COMMAND"], rows);
}

/** A guest chooses the words, and a terminal would obey some of them. */
function printable(word: string): string {
  return /^[\x21-\x7e]+$/.test(word) ? word : JSON.stringify(word).replace(/[^\x20-\x7e]/g, "?");
}

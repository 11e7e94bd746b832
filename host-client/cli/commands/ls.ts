import { posix } from "node:path";
import { Command } from "commander";
import type { FileEntry } from "#protocol/control/replies.ts";
import { Guest } from "../../guest.ts";
import { printLine, standardOutput, writeOut } from "../output.ts";
import { parseGuestPlace } from "../place.ts";
import { formatTable } from "../table.ts";
import { visible } from "../visible.ts";

export function lsCommand(): Command {
  return new Command("ls")
    .description("list a folder of a guest")
    .argument("<place>", "TARGET:/path")
    .option("-l, --long", "modes, sizes and times too")
    .option("--json", "print one JSON array for machines")
    .addHelpText("after", "\nExamples:\n  vmapp ls a:/etc\n  vmapp ls -l a:/var/log")
    .action(async (text: string, options: { long?: true; json?: true }) => {
      const { target, path } = parseGuestPlace(text);
      using files = Guest.connect(target).files;
      const entries = await entriesOf(files, path);
      if (options.json) await printLine(JSON.stringify(entries, null, 2));
      else if (options.long)
        await printLine(formatTable(["MODE", "SIZE", "CHANGED (UTC)", "NAME"], entries.map(longRow)));
      else await writeOut(standardOutput(), entries.map((entry) => `${visible(entry.name)}\n`).join(""));
    });
}

/** A folder's entries, or a file as the only one. */
async function entriesOf(files: Guest["files"], path: string): Promise<FileEntry[]> {
  const there = await files.stat(path);
  if (there !== undefined && there.type !== "dir") return [{ name: posix.basename(path), ...there }];
  return files.list(path);
}

const typeLetters = { dir: "d", link: "l", file: "-" } as const;

function longRow(entry: FileEntry): string[] {
  const letter = entry.special === true ? "s" : typeLetters[entry.type];
  return [`${letter}${entry.perm.padStart(3, "0")}`, String(entry.size), timeOf(entry), visible(entry.name)];
}

/** Some filesystems hold times that no date can. */
function timeOf({ mtime }: FileEntry): string {
  const time = new Date(mtime * 1000);
  return Number.isNaN(time.getTime()) ? `@${mtime}` : time.toISOString().slice(0, 19).replace("T", " ");
}

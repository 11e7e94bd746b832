import { Command } from "commander";
import { Guest } from "../../guest.ts";
import { parseGuestPlace } from "../place.ts";

export function rmCommand(): Command {
  return new Command("rm")
    .description("remove files, and with -r folders, in a guest")
    .argument("<places...>", "TARGET:/path")
    .option("-r, --recursive", "remove folders with all that is in them")
    .option("-f, --force", "what does not exist is no error")
    .action(async (texts: string[], options: { recursive?: true; force?: true }) => {
      for (const { target, path } of texts.map(parseGuestPlace)) {
        if (/\/\.{1,2}\/*$/.test(path)) throw new Error(`rm: ${path}: name what is to be removed without . and ..`);
        using files = Guest.connect(target).files;
        const there = await files.stat(path, { nofollow: true });
        if (there === undefined && options.force) continue;
        if (there === undefined) throw new Error(`rm: there is no ${path} in ${target}`);
        if (there.type === "dir" && !options.recursive) throw new Error(`rm: ${path} is a folder; remove it with -r`);
        await files.remove(path);
      }
    });
}

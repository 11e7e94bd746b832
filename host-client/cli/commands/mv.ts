import { posix } from "node:path";
import { Command } from "commander";
import { Guest } from "../../guest.ts";
import { parseGuestPlace } from "../place.ts";

export function mvCommand(): Command {
  return new Command("mv")
    .description("move or rename within a guest; never onto something that exists")
    .argument("<from>", "TARGET:/path")
    .argument("<to>", "TARGET:/path in the same guest; a folder that exists takes the source beneath its own name")
    .action(async (fromText: string, toText: string) => {
      const from = parseGuestPlace(fromText);
      const to = parseGuestPlace(toText);
      if (from.target !== to.target) throw new Error("mv: both paths must be in the same guest");
      using files = Guest.connect(from.target).files;
      const there = await files.stat(to.path);
      const path = there?.type === "dir" ? posix.join(to.path, posix.basename(posix.normalize(from.path))) : to.path;
      await files.rename(from.path, path);
    });
}

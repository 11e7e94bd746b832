import { Command } from "commander";
import { Guest } from "../../guest.ts";
import { parseGuestPlace } from "../place.ts";

export function mkdirCommand(): Command {
  return new Command("mkdir")
    .description("make folders in a guest, with those above them; one that exists is no error")
    .argument("<places...>", "TARGET:/path")
    .action(async (texts: string[]) => {
      for (const { target, path } of texts.map(parseGuestPlace)) {
        using files = Guest.connect(target).files;
        await files.mkdir(path);
      }
    });
}

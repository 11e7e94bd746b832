import { Command } from "commander";
import manifest from "../../../package.json" with { type: "json" };
import { printLine } from "../output.ts";

export const version: string = manifest.version;

export function versionCommand(): Command {
  return new Command("version").description("print the version of vmapp and of what runs it").action(async () => {
    const { bun } = process.versions;
    await printLine(`vmapp ${version} (${bun === undefined ? `Node ${process.versions.node}` : `Bun ${bun}`})`);
  });
}

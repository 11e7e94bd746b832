import { Command } from "commander";
import type { GuestStats } from "#protocol/control/replies.ts";
import { stats } from "../../clients/control/core.ts";
import { withConnection } from "../../clients/control/one-shot.ts";
import { GuestLink } from "../../guest-link.ts";
import { formatBytes } from "../byte-size.ts";
import { printLine } from "../output.ts";

export function statsCommand(): Command {
  return new Command("stats")
    .description("show what a guest uses: memory, load, disk, processes")
    .argument("<target>", "NAME of a VM, vsock:CID, hybrid:/path or unix:/dir")
    .option("--json", "print one JSON object for machines")
    .action(async (target: string, options: { json?: true }) => {
      const guest = await GuestLink.to(target);
      const found = await withConnection({ target: guest.target }, stats).catch((error: unknown) => {
        throw guest.explain(error);
      });
      await printLine(options.json ? JSON.stringify(found, null, 2) : describe(found));
    });
}

function describe({ uptime, memory, load, disk, processes, agent_rss, services = [] }: GuestStats): string {
  const used = (total: number, available: number): string =>
    `${formatBytes(total - available)} used of ${formatBytes(total)}, ${formatBytes(available)} available`;
  return [
    `up         ${Math.floor(uptime)} s`,
    `memory     ${used(memory.total, memory.available)} (${formatBytes(memory.cached)} cache)`,
    `load       ${load.map((each) => each.toFixed(2)).join(" ")}`,
    `disk ${disk.path.padEnd(5)} ${used(disk.total, disk.available)}`,
    `processes  ${processes}`,
    `agent      ${formatBytes(agent_rss)} resident`,
    ...services.map(
      ({ name, pid, restarts }) =>
        `service    ${name}: ${pid === undefined ? "not running" : `pid ${pid}`}, ${restarts} restarts`,
    ),
  ].join("\n");
}

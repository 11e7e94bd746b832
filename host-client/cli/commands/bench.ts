import { Command } from "commander";
import { type BridgeFigures, measureBridge } from "../../clients/bridge/measure.ts";
import { Guest } from "../../guest.ts";
import { parseCount } from "../option-values.ts";
import { printLine } from "../output.ts";
import { formatTable } from "../table.ts";

export function benchCommand(): Command {
  const command = new Command("bench").description("measure what a guest's services do");
  command.addCommand(bridgeCommand());
  return command;
}

function bridgeCommand(): Command {
  return new Command("bridge")
    .description("measure the app bridge: calls, replies of 8 MiB, and events")
    .argument("<target...>", "NAME of a VM, vsock:CID, hybrid:/path or unix:/dir; several are shown side by side")
    .option(
      "--rounds <count>",
      "how many rounds after the warm-up, of which the median is shown (default: 5)",
      parseCount,
    )
    .option("--json", "print one JSON object a target")
    .addHelpText(
      "after",
      `
The app in the guest needs handlers echo, blob(n) and burst(n), as examples/bench has them. To see what the forwarder
costs, give the app's own socket as a second target: it is unix:DIR when the app listens on DIR/1024.sock.

Examples:
  vmapp bench bridge a
  vmapp bench bridge unix:/tmp/forwarded unix:/tmp/direct`,
    )
    .action(async (targets: string[], options: { rounds?: number; json?: true }) => {
      const measured: { target: string; figures: BridgeFigures }[] = [];
      for (const target of targets) {
        await using session = await Guest.connect(target).app();
        const figures = await measureBridge(session, options.rounds === undefined ? {} : { rounds: options.rounds });
        measured.push({ target, figures });
        if (options.json) await printLine(JSON.stringify({ target, ...figures }));
      }
      if (!options.json) await printLine(describe(measured));
    });
}

function describe(measured: readonly { target: string; figures: BridgeFigures }[]): string {
  const row = (title: string, value: (figures: BridgeFigures) => string) => [
    title,
    ...measured.map(({ figures }) => value(figures)),
  ];
  return formatTable(
    ["", ...measured.map(({ target }) => target)],
    [
      row("one call after the other", (f) => `${f.callMicroseconds.toFixed(0)} µs`),
      row("1 000 calls at once", (f) => `${f.callsPerSecond.toFixed(0)} calls/s`),
      row("replies of 8 MiB", (f) => `${f.replyMebibytesPerSecond.toFixed(0)} MiB/s`),
      row("events", (f) => `${f.eventsPerSecond.toFixed(0)} messages/s`),
    ],
  );
}

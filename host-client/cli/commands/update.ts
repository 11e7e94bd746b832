import type { Stats } from "node:fs";
import { stat } from "node:fs/promises";
import { Command } from "commander";
import { ports } from "#protocol/ports.ts";
import { ControlClient } from "../../clients/control/client.ts";
import { createWaitReport } from "../../clients/control/wait-report.ts";
import { Guest } from "../../guest.ts";
import { parseSeconds } from "../option-values.ts";
import { note, printLine, standardError } from "../output.ts";
import { ProgressBar } from "../progress-bar.ts";

const defaultTimeoutMs = 300_000;

export function updateCommand(): Command {
  return new Command("update")
    .description("have a guest run another vmapp-init as its agent; it falls back by itself if that does not work")
    .argument("<target>", "NAME of a VM, vsock:CID, hybrid:/path or unix:/dir")
    .argument("<program>", "a vmapp-init built for the guest's processor")
    .option("--timeout <seconds>", "how long it may take in all", parseSeconds, defaultTimeoutMs)
    .addHelpText(
      "after",
      `
Sessions that run go on in the old agent until they end; new ones are served by the new one. PID 1 itself stays. An
update that does not answer within seconds is given up and never taken again.

Example:
  vmapp update a .cache/image/x64/vmapp-init`,
    )
    .action(async (target: string, program: string, { timeout }: { timeout: number }) => {
      const { size } = await regularFile(program);
      const guest = Guest.connect(target);
      const report = createWaitReport(note);
      let pushed = false;
      using bar = new ProgressBar(program, standardError());
      using client = new ControlClient({
        dial: () => guest.dial(ports.control),
        program,
        onState: (state) => {
          pushed ||= state.name === "updating";
          // What is said in the end needs no line before it.
          if (state.name !== "ready" || state.notice === undefined) report(state);
        },
        onUpdateProgress: (bytes) =>
          bar.onProgress?.({ bytes, totalBytes: size, files: bytes === size ? 1 : 0, totalFiles: 1 }),
      }).start();
      await client.ready({ timeoutMs: timeout });
      const { state } = client;
      if (state.name === "ready" && state.notice !== undefined) throw new Error(`${guest.name}: ${state.notice}`);
      const hash = requireSame(guest.name, client);
      await printLine(pushed ? `${guest.name} runs ${hash}` : `${guest.name} runs that program already`);
    });
}

async function regularFile(path: string): Promise<Stats> {
  const stats = await stat(path).catch((cause: unknown) => {
    throw new Error(`update: cannot read ${path}`, { cause });
  });
  if (!stats.isFile()) throw new Error(`update: ${path} is not a regular file`);
  return stats;
}

/** That no update was asked for is not enough: a guest whose PID 1 is not vmapp-init takes none. A stock daemon tells no hash. */
function requireSame(guest: string, { hello, program }: ControlClient): string {
  if (program === undefined) throw new Error("update: the program has vanished");
  if (hello?.hash === program.hash || (hello?.hash === undefined && hello?.build === undefined)) return program.hash;
  if (hello?.max_update === undefined) throw new Error(`update: ${guest} runs another program and takes no updates`);
  throw new Error(`update: ${guest} does not tell which program it runs`);
}

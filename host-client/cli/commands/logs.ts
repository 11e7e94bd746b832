import { closeSync, fstatSync, openSync, readSync, statSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { Command } from "commander";
import { stripTerminalEscapes } from "../../vm/console-log.ts";
import { VmError } from "../../vm/error.ts";
import { consoleLogPath, findVm, type KnownVm } from "../../vm/resolve.ts";
import { currentState, readVmRecord } from "../../vm/state.ts";
import { standardOutput, writeOut } from "../output.ts";

const followIntervalMs = 150;
const chunkBytes = 64 * 1024;

export function logsCommand(): Command {
  return new Command("logs")
    .description("print the console of a VM's guest: kernel, boot and services")
    .argument("<name>", "name of a VM, running or ended")
    .option("-f, --follow", "go on printing until the VM ends")
    .action(async (name: string, options: { follow?: true }) => {
      const vm = findVm(name);
      const log = new LogReader(consoleLogPath(vm));
      try {
        await log.print();
        while (options.follow && isRunning(vm)) {
          await sleep(followIntervalMs);
          await log.print();
        }
        await log.print();
      } finally {
        log.close();
      }
    });
}

function isRunning({ directory, record }: KnownVm): boolean {
  const now = readVmRecord(directory);
  if (now === undefined || now.id !== record.id) return false;
  const state = currentState(now);
  return state === "running" || state === "starting";
}

/** Prints what was added to a log since the last time, across its rotation. */
class LogReader {
  private fd: number;
  private readonly decoder = new TextDecoder();

  constructor(private readonly path: string) {
    this.fd = this.open();
  }

  async print(): Promise<void> {
    await this.printRest();
    if (!this.wasRotated()) return;
    closeSync(this.fd);
    this.fd = this.open();
    await this.printRest();
  }

  close(): void {
    closeSync(this.fd);
  }

  private open(): number {
    try {
      return openSync(this.path, "r");
    } catch (cause) {
      throw new VmError("no_such_vm", `cannot read the console log ${this.path}: ${(cause as Error).message}`, cause);
    }
  }

  private async printRest(): Promise<void> {
    const buffer = Buffer.alloc(chunkBytes);
    for (;;) {
      const count = readSync(this.fd, buffer);
      if (count === 0) return;
      const bytes = Buffer.from(buffer.subarray(0, count));
      // What a guest prints must not steer the terminal of the host.
      const shown = standardOutput().isTTY ? stripTerminalEscapes(this.decoder.decode(bytes, { stream: true })) : bytes;
      await writeOut(standardOutput(), shown);
    }
  }

  private wasRotated(): boolean {
    const current = statSync(this.path, { throwIfNoEntry: false });
    return current !== undefined && current.ino !== fstatSync(this.fd).ino;
  }
}

#!/usr/bin/env bun
import { CommanderError } from "commander";
import { describeFailure, failureStatus } from "./failure.ts";
import { flushOutput, note, OutputClosed, outputClosedStatus } from "./output.ts";
import { buildProgram } from "./program.ts";

async function main(): Promise<void> {
  try {
    const program = await buildProgram(process.argv.slice(2));
    await program.parseAsync(process.argv);
  } catch (error) {
    process.exitCode = statusOf(error);
  }
  // Standard input may keep the process alive, so it is ended; but only when what was written is out.
  await flushOutput();
  process.exit();
}

/** Exit status for what ended a command early; says why unless it was said already. */
function statusOf(error: unknown): number {
  // Commander has printed help, version or the complaint itself.
  if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : failureStatus;
  if (error instanceof OutputClosed) return outputClosedStatus;
  note(describeFailure(error));
  return failureStatus;
}

void main();

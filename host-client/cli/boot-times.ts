import { readFileSync } from "node:fs";
import { stripTerminalEscapes } from "../vm/console-log.ts";

/** How long the parts of a boot took, in seconds, by the guest's own clock, which starts with its kernel. */
export interface BootTimes {
  kernel: number;
  stage0: number;
  services: number;
}

const number = "(\\d+(?:\\.\\d+)?)";
const stage0Start = new RegExp(`^vmapp-stage0: start ${number}`, "gm");
const stage0End = new RegExp(`^vmapp-stage0: switch_root ${number}`, "gm");
const agentReady = new RegExp(`^vmapp-agent: ${number} info ready\\b`, "gm");

/** Reads the marks of the last boot in a console log. `undefined` when one of them is missing. */
export function parseBootTimes(consoleText: string): BootTimes | undefined {
  const text = stripTerminalEscapes(consoleText);
  const start = lastNumber(text, stage0Start);
  const switched = lastNumber(text, stage0End);
  const ready = lastNumber(text, agentReady);
  if (start === undefined || switched === undefined || ready === undefined) return undefined;
  return { kernel: start, stage0: switched - start, services: ready - switched };
}

export function readBootTimes(consoleLog: string): BootTimes | undefined {
  return parseBootTimes(readFileSync(consoleLog, "utf8"));
}

function lastNumber(text: string, pattern: RegExp): number | undefined {
  const matches = [...text.matchAll(pattern)];
  const value = matches.at(-1)?.[1];
  return value === undefined ? undefined : Number(value);
}

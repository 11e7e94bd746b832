/**
 * Log lines on standard error, which in a guest is the console:
 * `<program>: <seconds since boot> <level> <message> key=value …`, one line an event.
 */
import { readFileSync } from "node:fs";
import { LineOutput } from "./line-output.ts";

export type LogFields = Readonly<Record<string, string | number | boolean | undefined>>;

export interface Log {
  info(message: string, fields?: LogFields): void;
  warn(message: string, fields?: LogFields): void;
  error(message: string, fields?: LogFields): void;
}

const levels = ["info", "warn", "error"] as const;
export type LogLevel = (typeof levels)[number];

let leastLevel = Math.max(0, levels.indexOf(process.env.VMAPP_LOG_LEVEL as LogLevel));

/** Drops lines of less importance in this process. Until called, `$VMAPP_LOG_LEVEL` says it, or everything is printed. */
export function setLogLevel(level: LogLevel): void {
  leastLevel = levels.indexOf(level);
}

const bootOffsetSeconds = uptimeSeconds() - performance.now() / 1000;

function uptimeSeconds(): number {
  try {
    return Number.parseFloat(readFileSync("/proc/uptime", "utf8"));
  } catch {
    return 0;
  }
}

/** Seconds since the kernel started. */
export function secondsSinceBoot(): number {
  return bootOffsetSeconds + performance.now() / 1000;
}

/** A value with spaces, quotes or control characters is quoted as JSON, so that a line stays one line. */
function formatValue(value: string | number | boolean): string {
  const text = String(value);
  return /^[\x21-\x7e]+$/.test(text) && !text.includes('"') ? text : JSON.stringify(text);
}

/** where all logs of this process go: a console that takes nothing must not hold up or end the program that logs */
export const logOutput = new LineOutput({
  fd: 2,
  describeLoss: (count) =>
    formatLine("vmapp", "warn", "lines were lost, the console took nothing for a while", { count }),
});

function formatLine(program: string, level: LogLevel, message: string, fields: LogFields): string {
  let line = `${program}: ${secondsSinceBoot().toFixed(3)} ${level} ${message}`;
  for (const [key, value] of Object.entries(fields)) {
    if (value !== undefined) line += ` ${key}=${formatValue(value)}`;
  }
  return `${line}\n`;
}

export function createLog(program: string): Log {
  const write = (level: LogLevel, message: string, fields: LogFields = {}): void => {
    if (levels.indexOf(level) >= leastLevel) logOutput.write(Buffer.from(formatLine(program, level, message, fields)));
  };
  return {
    info: (message, fields) => write("info", message, fields),
    warn: (message, fields) => write("warn", message, fields),
    error: (message, fields) => write("error", message, fields),
  };
}

import { InvalidArgumentError } from "commander";

/** A whole number of MiB: `512`, `512M`, `2G`. */
export function parseMebibytes(text: string): number {
  const match = /^(\d{1,7})([MG]?)(?:i?B)?$/i.exec(text);
  if (match === null) throw new InvalidArgumentError("Give a number of MiB, or one with M or G, as in 512M.");
  return Number(match[1]) * (match[2]?.toUpperCase() === "G" ? 1024 : 1);
}

export function parseCount(text: string): number {
  if (!/^\d{1,6}$/.test(text)) throw new InvalidArgumentError("Give a whole number.");
  return Number(text);
}

/** A time limit in seconds, to milliseconds. */
export function parseSeconds(text: string): number {
  if (!/^\d{1,6}(?:\.\d{1,3})?$/.test(text)) throw new InvalidArgumentError("Give a number of seconds.");
  return Math.round(Number(text) * 1000);
}

/** `SIZE` for a disk in the state directory, `PATH` for one that is there, `PATH:SIZE` for one to be made if it is not. */
export function parseDisk(text: string): { path?: string; sizeMib?: number } {
  if (/^\d/.test(text)) return { sizeMib: parseMebibytes(text) };
  const colon = text.lastIndexOf(":");
  if (colon < 0) return { path: text };
  return { path: text.slice(0, colon), sizeMib: parseMebibytes(text.slice(colon + 1)) };
}

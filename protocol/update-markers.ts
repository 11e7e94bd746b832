/**
 * What the agent and PID 1 tell each other about an update of the agent, as files in one directory that only root may enter. Each
 * step is one rename, so that a crash at any point leaves either the state before it or the state after it:
 *
 *   the agent has received, verified and flushed a program          writes  `offered`
 *   PID 1 is about to start it                                      renames `offered` to `pending`
 *   the program, running as the agent, has answered a host's hello  renames `pending` to `confirmed`
 *   PID 1 has given it up                                           adds it to `rejected`, removes `pending`
 *
 * A `pending` that a boot finds was never confirmed, and is given up. Programs are stored under their hash, so the confirmed one
 * stays until another is.
 */

export const updateDirectory = "/var/lib/vmapp/update";

export const markerNames = {
  offered: "offered",
  pending: "pending",
  confirmed: "confirmed",
  rejected: "rejected",
} as const;

/** how long a new program has from its start to its first answered hello, in milliseconds */
export const trialMs = 8_000;

/** given-up programs that are remembered */
const rejectedLimit = 32;

const hashPattern = /^[0-9a-f]{64}$/;

/** Which program a marker is about. */
export interface Marker {
  /** SHA-256, lower-case hex */
  readonly sha256: string;
  /** bytes */
  readonly size: number;
  /** build id of the image's own vmapp-init: a stored program replaces that one and none that comes later */
  readonly base: string;
}

/** File name of a stored program. */
export function programName(sha256: string): string {
  return `program-${sha256}`;
}

export function encodeMarker({ sha256, size, base }: Marker): string {
  return `${JSON.stringify({ sha256, size, base })}\n`;
}

/** Undefined for anything but a whole marker. */
export function decodeMarker(text: string): Marker | undefined {
  try {
    const fields: { sha256?: unknown; size?: unknown; base?: unknown } = Object(JSON.parse(text));
    const { sha256, size, base } = fields;
    if (typeof sha256 !== "string" || !hashPattern.test(sha256) || typeof base !== "string") return undefined;
    return Number.isSafeInteger(size) && Number(size) > 0 ? { sha256, size: Number(size), base } : undefined;
  } catch {
    return undefined;
  }
}

/** Hashes of given-up programs, one a line; what is no hash is left out. */
export function decodeRejected(text: string): readonly string[] {
  return text.split("\n").filter((line) => hashPattern.test(line));
}

export function encodeRejected(hashes: readonly string[]): string {
  return [...new Set(hashes)]
    .slice(-rejectedLimit)
    .map((hash) => `${hash}\n`)
    .join("");
}

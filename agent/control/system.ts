/** What the hello says of the guest it runs in. */
import { readFileSync } from "node:fs";
import { networkInterfaces, release } from "node:os";

export interface OsInfo {
  /** `ID` of os-release, `linux` when the image has none */
  readonly id: string;
  /** `VERSION_ID` of os-release; empty when there is none */
  readonly version: string;
  /** kernel release */
  readonly kernel: string;
  /** `x64` or `arm64` */
  readonly arch: string;
}

export function osInfo(): OsInfo {
  const fields = osRelease();
  return {
    id: fields.get("ID") ?? "linux",
    version: fields.get("VERSION_ID") ?? "",
    kernel: release(),
    arch: process.arch,
  };
}

function osRelease(): ReadonlyMap<string, string> {
  for (const path of ["/etc/os-release", "/usr/lib/os-release"]) {
    try {
      return parseOsRelease(readFileSync(path, "utf8"));
    } catch {
      // An image need not have either.
    }
  }
  return new Map();
}

/** `NAME=value` lines, the value bare or quoted; see os-release(5). */
export function parseOsRelease(text: string): ReadonlyMap<string, string> {
  const fields = new Map<string, string>();
  for (const line of text.split("\n")) {
    const match = /^([A-Z][A-Z0-9_]*)=(?:"([^"]*)"|'([^']*)'|([^\s"']*))\s*$/.exec(line);
    if (match?.[1] !== undefined) fields.set(match[1], match[2] ?? match[3] ?? match[4] ?? "");
  }
  return fields;
}

/** None when the system does not tell, as when no descriptor is left to ask it with: a hello is not worth less for that. */
function readInterfaces(): ReturnType<typeof networkInterfaces> {
  try {
    return networkInterfaces();
  } catch {
    return {};
  }
}

/** First IPv4 address that is not loopback, of `eth*` and `en*` before the others (companion §11.15). */
export function ipAddress(): string | undefined {
  const addresses = Object.entries(readInterfaces()).flatMap(([name, list]) =>
    (list ?? [])
      .filter((each) => each.family === "IPv4" && !each.internal)
      .map((each) => ({ name, address: each.address })),
  );
  return (addresses.find(({ name }) => /^e(th|n)/.test(name)) ?? addresses[0])?.address;
}

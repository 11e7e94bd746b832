/** What is a malformed `init` whatever the server can give: the refusals that are the request's own fault (-32602). */
import type { InitParams } from "./calls.ts";
import { ConsoleError } from "./errors.ts";
import { guestPlaceOf, type Mount, urlBody } from "./mount.ts";

const systemDirectories = ["/proc", "/sys", "/dev"];

/** Throws {@link ConsoleError} `invalidParams` with the member named. */
export function checkInit(params: InitParams): void {
  checkMounts(params.mounts);
  if (params.ports.length > 0 && !params.network) {
    throw new ConsoleError("invalidParams", "a session without a network has no ports");
  }
  const hostPorts = new Set<number>();
  for (const { host } of params.ports) {
    if (hostPorts.has(host)) throw new ConsoleError("invalidParams", `host port ${host} is asked for twice`);
    hostPorts.add(host);
  }
  const { vcpus, memoryMib: memory_mib, gpuMemoryMib: gpu_memory_mib, diskGib: disk_gib } = params;
  for (const [member, value] of Object.entries({ vcpus, memory_mib, gpu_memory_mib, disk_gib })) {
    if (value === 0) throw new ConsoleError("invalidParams", `${member} is 0`);
  }
  if (gpu_memory_mib !== undefined && params.gpu === false) {
    throw new ConsoleError("invalidParams", "gpu_memory_mib beside a gpu of false");
  }
}

function checkMounts(mounts: readonly Mount[]): void {
  const taken = new Set<string>();
  for (const mount of mounts) {
    const refuse = (reason: string) =>
      new ConsoleError("invalidParams", `the mount at ${mount.guestPath} ${reason}: ${mount.url}`);
    const path = guestPlaceOf(mount);
    const parts = path.split("/");
    if (path === "/") throw refuse("would cover the session's root");
    if (parts.includes(".") || parts.includes("..")) throw refuse("has a . or .. in its path");
    if (path.includes("\0") || mount.url.includes("\0")) throw refuse("has a NUL byte");
    if (systemDirectories.some((directory) => path === directory || path.startsWith(`${directory}/`))) {
      throw refuse("would cover the system's own files");
    }
    if (mount.scheme === "file" && !urlBody(mount).startsWith("/")) throw refuse("needs an absolute path in its URL");
    if (taken.has(path)) throw refuse("is at a path that another one has");
    taken.add(path);
  }
}

import { existsSync, rmSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { Child } from "./child.ts";
import { VmError } from "./error.ts";
import { programs, requireProgram } from "./find-program.ts";
import { spawnTied } from "./spawn-tied.ts";

const readyTimeoutMs = 5_000;
/** Every VM has a device of its own, so the number only has to be a guest's. */
const guestCid = 3;

/**
 * Starts vhost-device-vsock: QEMU connects to `vhostUserSocket`, hosts to `hybridSocket`. Resolves when QEMU may connect.
 * Throws {@link VmError}.
 */
export async function startVsockDevice(vhostUserSocket: string, hybridSocket: string): Promise<Child> {
  const program = requireProgram(programs.vhostDeviceVsock);
  for (const path of [vhostUserSocket, hybridSocket]) rmSync(path, { force: true });
  const settings = `guest-cid=${guestCid},socket=${vhostUserSocket},uds-path=${hybridSocket}`;
  const device = new Child("vhost-device-vsock", spawnTied([program, "--vm", settings], ["ignore", "ignore", "pipe"]));
  let end: string | undefined;
  void device.ended.then((how) => {
    end = how;
  });
  const deadline = performance.now() + readyTimeoutMs;
  while (!existsSync(vhostUserSocket)) {
    if (end !== undefined) throw new VmError("start_failed", `${end}: ${device.messages || "it said nothing"}`);
    if (performance.now() > deadline) {
      device.kill();
      throw new VmError("start_failed", `vhost-device-vsock made no socket ${vhostUserSocket}: ${device.messages}`);
    }
    await sleep(5);
  }
  return device;
}

import { requestPower } from "../clients/control/one-shot.ts";
import type { Address } from "../transport/target.ts";
import { killProcess, type ProcessIdentity, waitForProcessEnd } from "./process-identity.ts";
import { Qmp } from "./qmp.ts";

const askTimeoutMs = 5_000;
const powerOffTimeoutMs = 15_000;
const quitTimeoutMs = 5_000;
const killTimeoutMs = 5_000;

export interface StopResult {
  /** `guest`: it powered itself off; `quit`: QEMU ended on request, as a power cut; `kill`: QEMU was killed; `none`: it had ended already */
  step: "guest" | "quit" | "kill" | "none";
  /** why the gentler steps did not do, one phrase each */
  problems: string[];
}

/**
 * Ends a VM: asks the guest to power off, then tells QEMU to quit, then kills it. Bounded by about 30 s. Works from any
 * process of the user. Throws only when QEMU survives SIGKILL.
 */
export async function stopMachine(machine: {
  target: Address;
  qmpSocket: string;
  qemu: ProcessIdentity;
}): Promise<StopResult> {
  const problems: string[] = [];
  if (await waitForProcessEnd(machine.qemu, 0)) return { step: "none", problems };
  try {
    await requestPower({ target: machine.target, action: "off", timeoutMs: askTimeoutMs });
    if (await waitForProcessEnd(machine.qemu, powerOffTimeoutMs)) return { step: "guest", problems };
    problems.push(`the guest agreed to power off and did not within ${powerOffTimeoutMs / 1000} s`);
  } catch (error) {
    if (await waitForProcessEnd(machine.qemu, 0)) return { step: "guest", problems };
    problems.push((error as Error).message);
  }
  try {
    const qmp = await Qmp.connect({ path: machine.qmpSocket, timeoutMs: quitTimeoutMs });
    // QEMU may be gone before it has answered.
    await qmp.execute("quit", {}, quitTimeoutMs).catch(() => {});
    qmp.close();
    if (await waitForProcessEnd(machine.qemu, quitTimeoutMs)) return { step: "quit", problems };
    problems.push(`QEMU did not quit within ${quitTimeoutMs / 1000} s`);
  } catch (error) {
    problems.push((error as Error).message);
  }
  if (await killProcess(machine.qemu, killTimeoutMs)) return { step: "kill", problems };
  throw new Error(`QEMU (pid ${machine.qemu.pid}) does not end, not even when killed: ${problems.join("; ")}`);
}

/** How a VM was ended, for people. */
export function describeStop({ step, problems }: StopResult): string {
  const how = {
    guest: "the guest powered off",
    quit: "QEMU was told to quit",
    kill: "QEMU was killed",
    none: "it had ended already",
  }[step];
  return problems.length === 0 ? how : `${how} (${problems.join("; ")})`;
}

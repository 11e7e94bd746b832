/** The requests that every guest answers, and `power`. */
import { versionReply } from "#protocol/control/replies.ts";
import type { ControlConnection } from "./connection.ts";
import { ControlError } from "./error.ts";

/** The v1 client's deadlines, in milliseconds (companion §8). */
export const timeouts = { short: 10_000, medium: 30_000, transfer: 180_000 } as const;

/** Resolves with the round trip in milliseconds. */
export async function ping(control: ControlConnection): Promise<number> {
  const start = performance.now();
  const reply = await control.request({ t: "ping" }, { timeoutMs: timeouts.short });
  if (reply.t !== "pong") throw new ControlError("protocol", `ping: answered with ${JSON.stringify(reply.t)}`);
  return performance.now() - start;
}

/** The build id of the guest's daemon; not a hash, whatever the field is called on the wire. */
export async function version(control: ControlConnection): Promise<string> {
  const reply = await control.request({ t: "version" }, { timeoutMs: timeouts.short });
  const parsed = versionReply.safeParse(reply);
  if (!parsed.success) throw new ControlError("protocol", "version: the answer has no hash");
  return parsed.data.hash;
}

/** *Extension* `power`: the guest agrees, then its PID 1 powers off or reboots. */
export async function power(control: ControlConnection, action: "off" | "reboot"): Promise<void> {
  if (!control.hasCap("power")) {
    throw new ControlError(
      "unavailable",
      "power: the guest cannot be powered off this way: its PID 1 is not vmapp-init",
    );
  }
  await control.request({ t: "power", action }, { timeoutMs: timeouts.short });
}

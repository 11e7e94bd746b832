/** The requests that every guest answers, and `power`. */
import { clockReply, type GuestStats, statsReply, versionReply } from "#protocol/control/replies.ts";
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

/** *Extension* `stats`: what the guest uses. */
export async function stats(control: ControlConnection): Promise<GuestStats> {
  if (!control.hasCap("stats")) throw new ControlError("unavailable", "stats: the guest does not tell what it uses");
  const parsed = statsReply.safeParse(await control.request({ t: "stats" }, { timeoutMs: timeouts.short }));
  if (!parsed.success) throw new ControlError("protocol", "stats: the answer is not what was asked for");
  return parsed.data;
}

/** *Extension* `clock`: gives the guest this host's time. Resolves with the difference in seconds and whether it stepped. */
export async function setClock(control: ControlConnection): Promise<{ offset: number; stepped: boolean }> {
  if (!control.hasCap("clock"))
    throw new ControlError("unavailable", "clock_set: the guest's clock is not ours to set");
  const reply = await control.request({ t: "clock_set", time: Date.now() / 1000 }, { timeoutMs: timeouts.short });
  const parsed = clockReply.safeParse(reply);
  if (!parsed.success) throw new ControlError("protocol", "clock_set: the answer is not what was asked for");
  return parsed.data;
}

/** *Extension* `reseed`: gives the guest's random number generator 64 bytes of this host's. Rejects unless it took them. */
export async function reseed(control: ControlConnection): Promise<void> {
  if (!control.hasCap("reseed")) throw new ControlError("unavailable", "reseed: the guest cannot be reseeded");
  const seed = Buffer.from(crypto.getRandomValues(new Uint8Array(64))).toString("base64");
  await control.request({ t: "reseed", seed }, { timeoutMs: timeouts.short });
}

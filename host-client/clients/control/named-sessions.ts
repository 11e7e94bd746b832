import { type NamedSessionInfo, sessionsReply } from "#protocol/control/replies.ts";
import { shellCaps } from "#protocol/shell/start.ts";
import type { ControlConnection } from "./connection.ts";
import { timeouts } from "./core.ts";
import { ControlError } from "./error.ts";

/** *Extension* `sessions`: the guest's shell sessions that have a name, by name. Throws {@link ControlError}. */
export async function namedSessions(control: ControlConnection): Promise<NamedSessionInfo[]> {
  if (!control.hasCap(shellCaps.session))
    throw new ControlError("unavailable", "sessions: the guest's agent has no named sessions");
  const reply = await control.request({ t: "sessions" }, { timeoutMs: timeouts.short });
  const parsed = sessionsReply.safeParse(reply);
  if (!parsed.success) throw new ControlError("protocol", "sessions: the answer is not a list of sessions");
  return parsed.data.sessions.toSorted((a, b) => (a.name < b.name ? -1 : 1));
}

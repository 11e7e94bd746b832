import { match } from "ts-pattern";
import type { Request } from "#protocol/control/requests.ts";
import type { Log } from "#sys/log.ts";
import type { SessionInfo } from "../shell/named-sessions.ts";
import type { Apps } from "./apps.ts";
import type { Clipboard } from "./clipboard.ts";
import { adjustClock } from "./clock.ts";
import { getFile } from "./files/get.ts";
import type { GuestPaths } from "./files/guest-paths.ts";
import { listFolder } from "./files/list.ts";
import { makeFolder } from "./files/make-folder.ts";
import { moveEntry } from "./files/move.ts";
import { putFile } from "./files/put.ts";
import { removeEntry } from "./files/remove.ts";
import { statEntry } from "./files/stat.ts";
import { requestPower } from "./power.ts";
import { ok, type Reply, type RequestBody } from "./reply.ts";
import { RequestError } from "./request-error.ts";
import { reseed } from "./reseed.ts";
import type { SessionContext } from "./session.ts";
import { guestStats } from "./stats.ts";
import type { Updater } from "./update/update.ts";

/** What the handlers work with; one for the whole service. */
export interface Facilities {
  readonly log: Log;
  readonly build: string;
  readonly paths: GuestPaths;
  readonly clipboard: Clipboard;
  readonly apps: Apps;
  /** whether PID 1 is ours: only then may the machine be powered off, its clock set and its generator reseeded */
  readonly ownsMachine: boolean;
  /** the shell service's named sessions; undefined where there is no such service */
  readonly namedSessions: (() => readonly SessionInfo[]) | undefined;
  /** undefined where nobody would start what it receives */
  readonly updater: Updater | undefined;
}

/** From a checked request to its handler. */
export function dispatch(
  facilities: Facilities,
  request: Request,
  body: RequestBody,
  context: SessionContext,
): Promise<Reply> | Reply {
  const { log, paths, clipboard, apps, updater } = facilities;
  return match(request)
    .returnType<Promise<Reply> | Reply>()
    .with({ t: "ping" }, () => ({ fields: { t: "pong" } }))
    .with({ t: "version" }, () => ({ fields: { t: "version", hash: facilities.build } }))
    .with({ t: "file_list" }, (list) => listFolder(paths, list))
    .with({ t: "file_get" }, (get) => getFile(paths, get))
    .with({ t: "file_put" }, (put) => putFile(paths, put, body))
    .with({ t: "file_mkdir" }, (mkdir) => makeFolder(paths, mkdir))
    .with({ t: "file_delete" }, (remove) => removeEntry(paths, remove))
    .with({ t: "file_rename" }, (move) => moveEntry(paths, move))
    .with({ t: "file_stat" }, (stat) => statEntry(paths, stat))
    .with({ t: "clipboard_get" }, () => clipboard.get())
    .with({ t: "clipboard_set" }, (set) => clipboard.set(set, body))
    .with({ t: "app_list" }, (list) => apps.list(list))
    .with({ t: "app_launch" }, (launch) => apps.launch(launch))
    .with({ t: "app_terminate" }, (terminate) => apps.terminate(terminate))
    .with({ t: "low_power_mode" }, () => ({
      fields: { t: "low_power_mode", ok: false, msg: "a VM has no power profiles" },
    }))
    .with({ t: "stats" }, () => guestStats())
    .with({ t: "sessions" }, () => {
      if (facilities.namedSessions === undefined) throw new RequestError("unavailable", "sessions not available");
      return { fields: { t: "sessions", sessions: facilities.namedSessions() } };
    })
    .with({ t: "clock_set" }, (clock) => {
      requireOwnMachine(facilities, clock.t);
      return adjustClock(clock, log);
    })
    .with({ t: "reseed" }, (seed) => {
      requireOwnMachine(facilities, seed.t);
      return reseed(seed, log);
    })
    .with({ t: "power" }, ({ t, action }) => {
      requireOwnMachine(facilities, t);
      return { ...ok, after: () => requestPower(action) };
    })
    .with({ t: "update" }, (update) => {
      if (updater === undefined)
        throw new RequestError("unavailable", "update failed", { reason: "PID 1 of this guest is not vmapp-init" });
      return updater.update(update, context.binHash, body);
    })
    .exhaustive();
}

function requireOwnMachine({ ownsMachine }: Facilities, what: string): void {
  if (!ownsMachine) throw new RequestError("unavailable", `${what}: PID 1 of this guest is not vmapp-init`);
}

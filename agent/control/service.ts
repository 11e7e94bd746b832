import { maxClipboardImageBytes } from "#protocol/control/limits.ts";
import type { Log } from "#sys/log.ts";
import type { Service } from "../service.ts";
import type { SessionInfo } from "../shell/named-sessions.ts";
import { Apps } from "./apps.ts";
import { Clipboard } from "./clipboard.ts";
import { dispatch, type Facilities } from "./dispatch.ts";
import { GuestPaths } from "./files/guest-paths.ts";
import { type HelloFacts, helloFields } from "./hello.ts";
import { OwnHash } from "./own-hash.ts";
import { underVmappInit } from "./power.ts";
import { type RunningSession, startSession } from "./session.ts";
import { ProgramStore } from "./update/program-store.ts";
import { Updater } from "./update/update.ts";

const gib = 1024 ** 3;

/** the executable has about 104 MiB */
const maxUpdateBytes = 256 * 1024 * 1024;

/** how long after the start the own hash is computed when no host has asked for it: start-up needs the processor more */
const hashDelayMs = 15_000;

/** v1's caps that are backed by something, then those of the extensions */
const everywhere = ["file", "clipboard", "file.stat", "file.range", "file.trailer", "file.page", "stats"];

export interface ControlOptions {
  log: Log;
  /** caps of the agent's other services, asked at each hello */
  caps: () => readonly string[];
  /** the shell service's named sessions; none can be asked for when absent */
  namedSessions?: (() => readonly SessionInfo[]) | undefined;
  /** build id, answered by `version`; `unknown` when absent */
  build?: string;
  /** the file whose SHA-256 stands for this program; what runs when absent */
  executable?: string;
  /** largest `file_put` in bytes; 4 GiB when absent */
  maxPutBytes?: number;
  /** the only folder that files may be touched in; the whole guest when absent */
  root?: string;
  /** none are taken when absent */
  updates?: UpdateHost | undefined;
}

/** Who starts the programs that are received. */
export interface UpdateHost {
  /** where they are stored */
  readonly directory: string;
  /** build id of PID 1 */
  readonly base: string;
  /** says that one is on offer */
  readonly announce: () => void;
}

export interface ControlService extends Service {
  /** Ends every session once the request under way is answered: another agent is to take over. */
  drain(): void;
  /** Breaks off every session, so that nothing half-written stays; resolves when that is done. */
  breakOff(): Promise<void>;
}

/** The control daemon on port 1337: `vphoned` protocol v1 with the profile and extensions of docs/control.md. */
export function createControlService({
  log,
  caps,
  build = "unknown",
  executable,
  maxPutBytes = 4 * gib,
  root = "/",
  namedSessions,
  updates,
}: ControlOptions): ControlService {
  const ownHash = new OwnHash(executable);
  setTimeout(() => void ownHash.start(), hashDelayMs).unref();
  const ownsMachine = underVmappInit();
  const own = [...everywhere, ...(ownsMachine ? ["power", "clock", "reseed"] : [])];
  const updater =
    updates === undefined
      ? undefined
      : new Updater({ ...updates, store: new ProgramStore(updates.directory), ownHash, log });
  const apps = new Apps();
  const facilities: Facilities = {
    log,
    build,
    paths: new GuestPaths(root),
    clipboard: new Clipboard(),
    apps,
    ownsMachine,
    namedSessions,
    updater,
  };
  const facts: HelloFacts = {
    build,
    ownHash,
    caps: () => [...own, ...(apps.available ? ["apps"] : []), ...caps()],
    maxPutBytes,
    maxUpdateBytes: updater === undefined ? undefined : maxUpdateBytes,
  };
  const rawLimits = { update: maxUpdateBytes, filePut: maxPutBytes, clipboardImage: maxClipboardImageBytes };
  const sessions = new Set<RunningSession>();
  return {
    name: "control",
    caps: own,
    serve(peer) {
      const session = startSession({
        peer,
        log,
        rawLimits,
        hello: (binHash) => helloFields(facts, binHash),
        greeted: () => void updater?.greeted(),
        handle: async (request, body, context) => dispatch(facilities, request, body, context),
      });
      sessions.add(session);
      void session.ended.then(() => sessions.delete(session));
    },
    drain() {
      for (const session of sessions) session.stop();
    },
    async breakOff() {
      for (const session of sessions) session.breakOff();
      await Promise.all([...sessions].map(({ ended }) => ended));
    },
  };
}

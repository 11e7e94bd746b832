/**
 * Commands on a pseudo-terminal, through node-pty's native addon (its JavaScript does not work on Bun). The master is read
 * and written by {@link FdReader} and {@link FdWriter}; the addon waits for the child in a thread of its own.
 */
import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { withFileCredentials } from "./credentials.ts";
import { duplicateFd, setCloseOnExec } from "./fd.ts";
import { sendSignal } from "./process.ts";
import type { ExitStatus, SpawnRequest } from "./spawn.ts";
import { FdReader, FdWriter } from "./stream-fd.ts";

interface PtyAddon {
  fork(
    file: string,
    args: string[],
    env: string[],
    cwd: string,
    cols: number,
    rows: number,
    uid: number,
    gid: number,
    utf8: boolean,
    helperPath: string,
    onExit: (code: number, signal: number) => void,
  ): { fd: number; pid: number; pty: string };
  resize(fd: number, cols: number, rows: number): void;
}

/** set in a compiled executable */
declare const VMAPP_BUILD_ID: string | undefined;

/** uid and gid of a child that keeps ours */
const asThisProcess = -1;

let addon: PtyAddon | undefined;

/** where the runtime is mounted in a guest; an agent that was sent as an update runs from elsewhere */
const runtimeAddon = "/opt/vmapp/lib/pty.node";

/** The addon beside the guest's executable, else the runtime's, else the one that this checkout built. */
function loadAddon(): PtyAddon {
  if (addon !== undefined) return addon;
  const candidates = [join(dirname(process.execPath), "../lib/pty.node"), runtimeAddon];
  // The bundler would put the sources' path into the executable.
  if (typeof VMAPP_BUILD_ID === "undefined")
    candidates.push(join(import.meta.dirname, "../node_modules/node-pty/build/Release/pty.node"));
  const path = candidates.find((candidate) => existsSync(candidate));
  if (path === undefined) throw new Error(`node-pty's addon is in none of ${candidates.join(", ")}`);
  const module = { exports: {} };
  process.dlopen(module, path);
  addon = module.exports as PtyAddon;
  return addon;
}

export interface PtyRequest extends SpawnRequest {
  /** height in character cells */
  readonly rows: number;
  /** width in character cells */
  readonly cols: number;
}

/** A command with the pty as controlling terminal, in a session of its own. */
export interface PtyChild {
  readonly pid: number;
  /** the pty's output; ends when the last holder of the terminal is gone */
  readonly output: FdReader;
  /** the pty's input; closing it leaves the terminal open */
  readonly input: FdWriter;
  readonly exited: Promise<ExitStatus>;
  /** Signals the command's process group. Returns false when nothing of it is left. */
  signalGroup(signal: number): boolean;
  /** Sets the window size in cells, which raises SIGWINCH in the foreground group. No effect once `output` is closed. */
  resize(size: { readonly rows: number; readonly cols: number }): void;
}

/** Starts the command. Throws when no pty is left or the fork fails; a failing exec shows as text on the pty and exit 1. */
export function openPty({ file, argv, env, cwd, rows, cols, credentials }: PtyRequest): PtyChild {
  let ended: (status: ExitStatus) => void = () => {};
  let running = true;
  const exited = new Promise<ExitStatus>((resolve) => {
    ended = (status) => {
      running = false;
      resolve(status);
    };
  });
  const { fork, resize } = loadAddon();
  const environment = Object.entries(env).map(([key, value]) => `${key}=${value}`);
  const { uid, gid } = credentials ?? { uid: asThisProcess, gid: asThisProcess };
  const started = withFileCredentials(credentials, () =>
    fork(file, argv.slice(1), environment, cwd, cols, rows, uid, gid, true, "", (code, signal) =>
      ended(signal === 0 ? { code, signal: null } : { code: null, signal }),
    ),
  );
  // Inherited by the next child, the master would keep this terminal alive after its session.
  setCloseOnExec(started.fd);
  const output = new FdReader(started.fd);
  return {
    pid: started.pid,
    output,
    input: new FdWriter(duplicateFd(started.fd)),
    exited,
    // The fork returns before the child leads its group: until then there is only the child itself.
    signalGroup: (signal) => sendSignal(-started.pid, signal) || (running && sendSignal(started.pid, signal)),
    resize: (size) => {
      if (!output.closed) resize(started.fd, size.cols, size.rows);
    },
  };
}

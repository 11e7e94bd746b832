import { join } from "node:path";
import { Command, InvalidArgumentError, Option } from "commander";
import { match } from "ts-pattern";
import type { InspectedMessage } from "../../clients/bridge/inspector.ts";
import { defaultPermissions, isOpName, type OpName } from "../../clients/bridge/ops.ts";
import type { AppOptions, AppSession } from "../../clients/bridge/session.ts";
import { JoinedSession, shareSession } from "../../clients/bridge/shared-session.ts";
import { Guest } from "../../guest.ts";
import { type KnownVm, resolveTarget } from "../../vm/resolve.ts";
import { stopKnownVm } from "../../vm/stop-known.ts";
import { parseSeconds } from "../option-values.ts";
import { note, printLine } from "../output.ts";
import { onStopSignal } from "../stop-signals.ts";
import { visibleJson } from "../visible.ts";

/** in the state directory of a VM: the session that its other users join */
const sharedSessionFile = "app.sock";

interface AppCommandOptions {
  folder?: Record<string, string | null>;
  data?: string;
  allow?: OpName[];
  timeout?: number;
  json?: true;
}

export function appCommand(): Command {
  return new Command("app")
    .description("talk to the app in a guest: watch its traffic, call it, have it quit")
    .usage("[options] TARGET watch|invoke|quit [CHANNEL [JSON...]]")
    .argument("<target>", "NAME of a VM, vsock:CID, hybrid:/path or unix:/dir")
    .argument("<action>", "watch, invoke or quit")
    .argument("[words...]", "for invoke: the channel, and its arguments as JSON")
    .addOption(
      new Option(
        "--folder <name=path>",
        "a folder that is shared with the app, by its path in the guest; repeatable",
      ).argParser(parseFolder),
    )
    .option("--data <path>", "the app's own directory in the guest")
    .addOption(
      new Option("--allow <operation>", "lets the app use an operation besides the usual ones; repeatable").argParser(
        parseOperation,
      ),
    )
    .option("--timeout <seconds>", "how long to wait for the app to be ready (default: 60)", parseSeconds)
    .option("--json", "print JSON: of watch one object a message, of invoke on one line")
    .addHelpText(
      "after",
      `
A guest's app talks to one host end at a time. While one of these commands, or a program that uses the library, holds
the session of a VM, the others join it; without one they open a session of their own, and end it when they are done.

Examples:
  vmapp app a watch
  vmapp app --folder notes=/host/notes a invoke notes:list
  vmapp app a invoke notes:write '"todo.md"' '"buy milk"'
  vmapp app a quit`,
    )
    .action(async (target: string, action: string, words: string[], options: AppCommandOptions) => {
      await match(action)
        .with("watch", () => watch(target, options))
        .with("invoke", () => invoke(target, words, options))
        .with("quit", () => quit(target, options))
        .otherwise(() => {
          throw new Error(`"${action}" is none of watch, invoke, quit`);
        });
    });
}

function parseFolder(text: string, former: Record<string, string | null> = {}): Record<string, string | null> {
  const found = /^([^=]+)=(.*)$/.exec(text);
  if (found === null) throw new InvalidArgumentError("Give NAME=PATH, or NAME= for a folder that is not there yet.");
  return { ...former, [found[1] as string]: found[2] || null };
}

function parseOperation(text: string, former: OpName[] = []): OpName[] {
  if (!isOpName(text)) throw new InvalidArgumentError("There is no such operation.");
  return [...former, text];
}

function sessionOptions({ folder, data, allow = [], timeout }: AppCommandOptions): AppOptions {
  return {
    permissions: [...defaultPermissions, ...allow],
    ...(folder === undefined ? {} : { folders: folder }),
    ...(data === undefined ? {} : { data }),
    ...(timeout === undefined ? {} : { timeoutMs: timeout }),
  };
}

function joinOptions({ timeout }: AppCommandOptions): { readyMs?: number } {
  return timeout === undefined ? {} : { readyMs: timeout };
}

/** Where the VM's session is shared; undefined for a target that is no VM of this host. */
function sharedPath(vm: KnownVm | undefined): string | undefined {
  return vm === undefined ? undefined : join(vm.directory, sharedSessionFile);
}

function joinSession(path: string | undefined): Promise<JoinedSession | undefined> {
  return path === undefined ? Promise.resolve(undefined) : JoinedSession.connect(path);
}

/** Uses a session of our own, which others join meanwhile; ends it once they have been answered too. */
async function useOwnSession(
  { target, path, options }: { target: string; path: string | undefined; options: AppOptions },
  use: (session: AppSession) => Promise<void>,
): Promise<void> {
  let endSession = async () => {};
  const onSession = (session: AppSession) => {
    // Before it is ready: whoever comes while it waits for the app would take its place otherwise.
    const stopSharing = path === undefined ? undefined : shareSession(session, path);
    endSession = async () => {
      await stopSharing?.();
      await session.close();
    };
  };
  try {
    await use(await Guest.connect(target).app({ ...options, onSession }));
  } finally {
    await endSession();
  }
}

async function watch(target: string, options: AppCommandOptions): Promise<void> {
  const path = sharedPath(resolveTarget(target).vm);
  const stopping = new AbortController();
  const undo = onStopSignal(() => stopping.abort());
  let stopSharing = async () => {};
  const print = (message: InspectedMessage) =>
    void printLine(options.json ? visibleJson(JSON.stringify(message)) : describe(message)).catch(() =>
      stopping.abort(),
    );
  try {
    const joined = await joinSession(path);
    if (joined !== undefined) {
      await joined.watch({ onMessage: print, onProblem: note }, stopping.signal);
      return;
    }
    const session = await Guest.connect(target).app({
      ...sessionOptions(options),
      signal: stopping.signal,
      onSession: (opened) => {
        opened.on("message", print).on("problem", note);
        if (path !== undefined) stopSharing = shareSession(opened, path);
      },
    });
    await new Promise<void>((resolve) => {
      session.on("state", (state) => state === "closed" && resolve());
      stopping.signal.addEventListener("abort", () => resolve());
    });
    await session.close();
  } catch (error) {
    // Ended by its user while it waited for the app.
    if (!stopping.signal.aborted) throw error;
  } finally {
    await stopSharing();
    undo();
  }
}

async function invoke(target: string, words: readonly string[], options: AppCommandOptions): Promise<void> {
  const [channel, ...texts] = words;
  if (channel === undefined) throw new Error("invoke wants a channel: vmapp app TARGET invoke CHANNEL [JSON...]");
  const args = texts.map(parseArgument);
  const print = (result: unknown) => printLine(visibleJson(JSON.stringify(result, null, options.json ? 0 : 2)));
  const path = sharedPath(resolveTarget(target).vm);
  const joined = await joinSession(path);
  if (joined !== undefined) await print(await joined.invoke(channel, args, joinOptions(options)));
  else
    await useOwnSession({ target, path, options: sessionOptions(options) }, async (session) =>
      print(await session.invoke(channel, ...args)),
    );
}

async function quit(target: string, options: AppCommandOptions): Promise<void> {
  const { vm } = resolveTarget(target);
  const path = sharedPath(vm);
  const tell = ({ ended }: { ended: boolean }) => note(ended ? "the app has ended" : "the app did not end within 3 s");
  const joined = await joinSession(path);
  if (joined !== undefined) tell(await joined.quit(joinOptions(options)));
  else
    await useOwnSession({ target, path, options: sessionOptions(options) }, async (session) =>
      tell(await session.quit()),
    );
  if (vm !== undefined) await printLine(`${vm.record.name}: ${await stopKnownVm(vm, { remove: false })}`);
}

function parseArgument(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new Error(`${JSON.stringify(text)} is not JSON; a text wants quotes of its own, as in '"text"'`);
  }
}

/** `   12.345  > invoke   120 B            {…}`; an answer has its latency. */
function describe({ atMs, direction, t, bytes, latencyMs, refused, preview }: InspectedMessage): string {
  const latency = latencyMs === undefined ? "" : `${latencyMs.toFixed(latencyMs < 10 ? 2 : 0)} ms`;
  const mark = refused === undefined ? "" : `[${refused}] `;
  return [
    (atMs / 1000).toFixed(3).padStart(9),
    direction === "to-core" ? ">" : "<",
    t.padEnd(11),
    `${bytes} B`.padStart(10),
    latency.padStart(9),
    `${mark}${visibleJson(preview)}`,
  ].join(" ");
}

/** PID 1: puts the parts together. It never reads a client's bytes, and no exception in here ends it. */
import { readFileSync } from "node:fs";
import { decodeBootConfig, type TakenBootConfig } from "#protocol/boot-config.ts";
import { updateDirectory } from "#protocol/update-markers.ts";
import { createLog, type Log, setLogLevel } from "#sys/log.ts";
import { deliverCtrlAltDelAsSignal, type PowerAction } from "#sys/power.ts";
import { dropCrashHandlers, peekExitedChild, reap } from "#sys/process.ts";
import { AgentUpdates } from "./agent-updates.ts";
import { findAppCore, prepareAppPlaces } from "./app-core.ts";
import { boot } from "./boot.ts";
import { serviceEnvironment } from "./environment.ts";
import { Power } from "./power.ts";
import { ownChildren, reapOrphans } from "./reaping.ts";
import { takeAppWish, writeServiceReport } from "./service-report.ts";
import { agentCommand, declaredServices } from "./services.ts";
import { Supervisor } from "./supervisor.ts";
import { UpdateFiles } from "./update-files.ts";
import { buildId } from "./version.ts";

/** SIGCHLDs that come at once are one: a look now and then finds what they left */
const reapIntervalMs = 5_000;

/** SIGUSR1, SIGUSR2 and SIGTERM as busybox sends them; SIGINT is Ctrl-Alt-Del */
const powerSignals: Readonly<Record<string, PowerAction>> = {
  SIGUSR1: "halt",
  SIGUSR2: "power-off",
  SIGTERM: "reboot",
  SIGINT: "reboot",
};

/** @param agentArguments handed to the agent, e.g. `["--listen", "unix:/run/x"]` */
export function runPid1({
  self,
  agentArguments,
}: {
  self: readonly [string, ...string[]];
  agentArguments: readonly string[];
}): void {
  const log = createLog("vmapp-init");
  process.on("uncaughtException", (error) => log.error("unexpected exception", { error: describe(error) }));
  process.on("unhandledRejection", (reason) => log.error("unexpected rejection", { error: describe(reason) }));
  if (process.pid !== 1) {
    log.error("init is for process 1 alone", { pid: process.pid });
    process.exitCode = 2;
    return;
  }

  dropCrashHandlers();
  const ownsMachine = guard(log, "take Ctrl-Alt-Del", deliverCtrlAltDelAsSignal) ?? false;
  let appData: string | undefined;
  const supervisor = new Supervisor({
    log,
    onChange: () =>
      guard(log, "report the services", () =>
        writeServiceReport({
          services: supervisor.services(),
          ...(appData === undefined ? {} : { app_data: appData }),
        }),
      ),
  });
  const power = new Power({ log, supervisor, ownsMachine });
  for (const [signal, action] of Object.entries(powerSignals)) process.on(signal, () => power.request(action, signal));
  let updates: AgentUpdates | undefined;
  process.on("SIGHUP", () => {
    guard(log, "begin an update", () => updates?.look());
    guard(log, "start or end the app", () => followAppWish(supervisor));
  });

  const reapAll = () =>
    guard(log, "reap", () =>
      reapOrphans({ peek: peekExitedChild, reap, children: ownChildren, owned: (pid) => supervisor.owns(pid) }),
    );
  process.on("SIGCHLD", reapAll);
  setInterval(reapAll, reapIntervalMs);

  const config = guard(log, "read the boot config", () => readBootConfig(log)) ?? {};
  const logLevel = config.logLevel ?? "info";
  setLogLevel(logLevel);
  log.info("init started", { build: buildId });
  guard(log, "boot", () => boot({ config, log }));

  const env = serviceEnvironment({ VMAPP_LOG_LEVEL: logLevel });
  const appCore = guard(log, "run the app", () => {
    const found = findAppCore({
      configured: config.app,
      env,
      onQuit: () => power.request("power-off", "the app has quit"),
    });
    if (found !== undefined) prepareAppPlaces(found);
    appData = found?.manifest.data;
    return found;
  });
  updates = guard(
    log,
    "look for updates",
    () => new AgentUpdates({ files: new UpdateFiles(updateDirectory), self, base: buildId, log }),
  );
  const agentArgv = (executable: readonly [string, ...string[]]) => agentCommand(executable, agentArguments);
  const agent = {
    argv: agentArgv(updates?.executable ?? self),
    env: { ...env, VMAPP_UPDATES: updateDirectory, VMAPP_BASE: buildId },
    takesOver: (ranMs: number) => guard(log, "fall back", () => updates?.ended(ranMs)) ?? false,
  };
  supervisor.start(
    ...declaredServices({ self, agent, agentArguments, appSocket: appCore?.socket, env }),
    ...(appCore === undefined ? [] : [appCore.service]),
  );
  const runner = {
    handOver: (executable: readonly [string, ...string[]]) =>
      supervisor.replace("agent", agentArgv(executable), "SIGHUP"),
    replace: (executable: readonly [string, ...string[]]) =>
      supervisor.replace("agent", agentArgv(executable), "SIGKILL"),
  };
  guard(log, "begin an update", () => updates?.started(runner));
  log.info("services started", Object.fromEntries(supervisor.running().map(({ name, pid }) => [name, pid])));
}

function followAppWish(supervisor: Supervisor): void {
  const wish = takeAppWish();
  if (wish === "running") supervisor.resume("app");
  if (wish === "stopped") supervisor.suspend("app");
}

function readBootConfig(log: Log): TakenBootConfig {
  const { config, problems } = decodeBootConfig(readFileSync("/proc/cmdline", "utf8"));
  for (const problem of problems) log.warn("bad boot config", { problem });
  return config;
}

/** Carries on without a part that fails. */
function guard<T>(log: Log, what: string, task: () => T): T | undefined {
  try {
    return task();
  } catch (error) {
    log.error(`cannot ${what}`, { error: describe(error) });
    return undefined;
  }
}

function describe(error: unknown): string {
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}

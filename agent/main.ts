/** The agent: every service of the guest in one process. `vmapp-init agent [--listen vsock|unix:DIR]`. */
import { writeFileSync } from "node:fs";
import { ports } from "#protocol/ports.ts";
import { createLog } from "#sys/log.ts";
import { createConsoleService } from "./console/service.ts";
import { tellInit } from "./control/power.ts";
import { createControlService, type UpdateHost } from "./control/service.ts";
import { listen, parseListenTarget } from "./listener.ts";
import { Listeners, untilPortIsFree } from "./listeners.ts";
import type { Service } from "./service.ts";
import { createShellService } from "./shell/service.ts";

/** keeps the OOM killer away from the agent while any command is left to kill */
const oomScoreAdjust = "-900";
/** how long sessions may still talk to their clients after SIGTERM; less than PID 1 waits for the agent */
const lastWordsMs = 1_000;

/** Starts every service; resolves once all of them listen. Throws a RangeError for arguments it does not know. */
export async function runAgent(args: readonly string[], { build }: { build: string }): Promise<void> {
  const target = parseListenTarget(listenArgument(args));
  const log = createLog("vmapp-agent");
  process.on("uncaughtException", (error) => log.error("uncaught exception", { error: String(error.stack) }));
  process.on("unhandledRejection", (reason) => log.error("unhandled rejection", { error: String(reason) }));
  if (target.kind === "vsock") protectFromOomKiller();

  const shell = createShellService({ log });
  const others: Service[] = [shell, createConsoleService({ log })];
  const control = createControlService({
    log,
    build,
    caps: () => others.flatMap((service) => service.caps),
    namedSessions: () => shell.sessions(),
    updates: takeUpdateHost(),
  });
  const listeners = new Listeners();
  process.on("SIGTERM", () => leave(Promise.all([listeners.close(shell), control.breakOff()])));
  process.on("SIGHUP", () => {
    log.info("another agent takes over; sessions go on here until they end");
    control.drain();
    void listeners.closeAll().then(() => process.exit(0));
  });
  for (const service of [control, ...others]) {
    listeners.add(service, await untilPortIsFree(() => listen({ service, target, log })));
    log.info("listening", { service: service.name, port: ports[service.name] });
  }
  log.info("ready");
}

/**
 * Ends the agent once uploads are cleared away and its sessions have told their clients how their commands ended: when the
 * machine goes down, PID 1 has ended the commands by the time that it asks the agent.
 */
function leave(over: Promise<unknown>): void {
  void over.then(() => process.exit(0));
  setTimeout(() => process.exit(0), lastWordsMs);
}

/** PID 1 says where it looks for updates; it alone could start one. */
function takeUpdateHost(): UpdateHost | undefined {
  const { VMAPP_UPDATES: directory, VMAPP_BASE: base } = process.env;
  // Not for the programs that sessions run.
  delete process.env.VMAPP_UPDATES;
  delete process.env.VMAPP_BASE;
  if (directory === undefined || base === undefined || process.ppid !== 1) return undefined;
  return { directory, base, announce: tellInit };
}

function listenArgument(args: readonly string[]): string {
  if (args.length === 0) return "vsock";
  const [flag, value, ...rest] = args;
  if (flag !== "--listen" || value === undefined || rest.length > 0)
    throw new RangeError(`cannot read the arguments ${JSON.stringify(args)}: expected --listen vsock|unix:DIR`);
  return value;
}

function protectFromOomKiller(): void {
  try {
    writeFileSync("/proc/self/oom_score_adj", oomScoreAdjust);
  } catch {
    // Not privileged, as in a container: then nothing is adjusted.
  }
}

/**
 * Runs the declared services as `supervision.ts` decides. It owns the processes that it starts: Bun waits for them, and
 * {@link Supervisor.owns} tells the reaper to leave them alone.
 */
import { writeFileSync } from "node:fs";
import { withCredentials } from "#sys/credentials.ts";
import { type Log, logOutput } from "#sys/log.ts";
import { sendSignal } from "#sys/process.ts";
import { prefixLines } from "./service-output.ts";
import { ServicePipe } from "./service-pipe.ts";
import type { ServiceSpec } from "./services.ts";
import {
  decide,
  restartBudget,
  type ServiceAction,
  type ServiceEvent,
  type ServiceState,
  slowRetryMs,
  stopped,
} from "./supervision.ts";

const signals = { SIGHUP: 1, SIGKILL: 9, SIGTERM: 15 } as const;

/** how long a service that is to end may take before it is killed */
const graceMs = 5_000;

interface Supervised {
  spec: ServiceSpec;
  state: ServiceState;
  /** of the running process; undefined between runs */
  pid: number | undefined;
  /** when the running process was started, on the monotonic clock */
  startedMs: number;
  /** times that it was started */
  starts: number;
  timer: NodeJS.Timeout | undefined;
  /** it is ending, and is to be started again then */
  resumed: boolean;
  /** standard output and standard error of a service whose output is prefixed, from its first start on */
  pipes: readonly [ServicePipe, ServicePipe] | undefined;
}

export class Supervisor {
  readonly #log: Log;
  readonly #onChange: () => void;
  readonly #services: Supervised[] = [];
  #down = false;
  /** processes that another one has taken over from, and that only end what they had begun */
  readonly #leaving = new Map<number, ServiceSpec>();

  /** `onChange` hears of every start and end */
  constructor({ log, onChange = () => {} }: { log: Log; onChange?: () => void }) {
    this.#log = log;
    this.#onChange = onChange;
  }

  /** Starts services, all of them known before the first runs; one that cannot be started is treated as one that failed at once. */
  start(...specs: readonly ServiceSpec[]): void {
    const services = specs.map(
      (spec): Supervised => ({
        spec,
        state: stopped,
        pid: undefined,
        startedMs: 0,
        starts: 0,
        timer: undefined,
        resumed: false,
        pipes: undefined,
      }),
    );
    this.#services.push(...services);
    for (const service of services) this.#handle(service, { type: "start" });
  }

  /** Ends a service, which is not started again until {@link resume}; one that ignores SIGTERM is killed. */
  suspend(name: string): void {
    const service = this.#services.find(({ spec }) => spec.name === name);
    if (service === undefined) return;
    clearTimeout(service.timer);
    service.resumed = false;
    this.#handle(service, { type: "stop" });
    const { pid } = service;
    if (pid === undefined) return;
    sendSignal(-pid, signals.SIGTERM);
    setTimeout(() => {
      if (service.pid === pid && service.state.phase === "stopped") sendSignal(-pid, signals.SIGKILL);
    }, graceMs);
  }

  /** Starts a service that was suspended or has ended for good; one that is still ending, once it has ended. */
  resume(name: string): void {
    const service = this.#services.find(({ spec }) => spec.name === name);
    if (service === undefined || this.#down) return;
    if (service.pid === undefined) this.#handle(service, { type: "start" });
    else service.resumed = service.state.phase === "stopped";
  }

  /** Every service, running or not. */
  services(): { name: string; program: string; pid?: number; restarts: number }[] {
    return this.#services.map(({ spec, pid, starts }) => ({
      name: spec.name,
      program: spec.argv[0],
      ...(pid === undefined ? {} : { pid }),
      restarts: Math.max(0, starts - 1),
    }));
  }

  /**
   * Runs a service by another command line from now on, and at once. What runs gets the signal: SIGHUP asks it to finish
   * what it has begun, and it is not started again when it ends.
   */
  replace(name: string, argv: ServiceSpec["argv"], signal: "SIGHUP" | "SIGKILL"): void {
    const service = this.#services.find(({ spec }) => spec.name === name);
    if (service === undefined || this.#down) return;
    clearTimeout(service.timer);
    if (service.pid !== undefined) {
      this.#leaving.set(service.pid, service.spec);
      sendSignal(service.pid, signals[signal]);
      service.pid = undefined;
    }
    service.spec = { ...service.spec, argv };
    service.state = stopped;
    this.#handle(service, { type: "start" });
    this.#log.info("service replaced", { service: name, pid: service.pid });
  }

  /** Nothing is started any more; what runs goes on. */
  stop(): void {
    this.#down = true;
    for (const service of this.#services) {
      clearTimeout(service.timer);
      this.#handle(service, { type: "stop" });
    }
  }

  /** Whether this child is waited for here. */
  owns(pid: number): boolean {
    return this.#leaving.has(pid) || this.#services.some((service) => service.pid === pid);
  }

  /** The running services, by name. */
  running(): { name: string; pid: number; carriesSessions: boolean }[] {
    const current = this.#services.flatMap(({ spec, pid }) => (pid === undefined ? [] : [{ spec, pid }]));
    const leaving = [...this.#leaving].map(([pid, spec]) => ({ spec, pid }));
    return [...current, ...leaving].map(({ spec, pid }) => ({
      name: spec.name,
      pid,
      carriesSessions: spec.carriesSessions,
    }));
  }

  #handle(service: Supervised, event: ServiceEvent): void {
    const { state, action } = decide(service.spec.restart, service.state, event, performance.now());
    service.state = state;
    this.#carryOut(service, action);
    if (action.do === "spawn" && event.type !== "start" && service.pid !== undefined)
      this.#log.info("service started again", { service: service.spec.name, pid: service.pid });
  }

  #carryOut(service: Supervised, action: ServiceAction): void {
    switch (action.do) {
      case "nothing":
        return;
      case "spawn":
        this.#spawn(service);
        return;
      case "wait":
        if (action.budgetSpent)
          this.#log.error("service keeps ending and is started more rarely", {
            service: service.spec.name,
            restarts: restartBudget,
            retrySeconds: slowRetryMs / 1000,
          });
        service.timer = setTimeout(() => this.#handle(service, { type: "due" }), action.delayMs);
    }
  }

  #spawn(service: Supervised): void {
    const { spec } = service;
    try {
      if (spec.output === "prefixed") service.pipes ??= this.#passOn(spec);
      const [stdout, stderr] = service.pipes?.map(({ writeFd }) => writeFd) ?? [];
      const child = withCredentials(spec.credentials, () =>
        Bun.spawn([...spec.argv], {
          env: { ...spec.env },
          cwd: spec.cwd ?? "/",
          stdin: "ignore",
          stdout: stdout ?? "inherit",
          stderr: stderr ?? "inherit",
          detached: true,
          onExit: (child, code, signal) => this.#ended(service, child.pid, code, signal),
        }),
      );
      service.pid = child.pid;
      service.startedMs = performance.now();
      service.starts++;
      if (spec.oomScoreAdjust !== undefined) adjustOomScore(child.pid, spec.oomScoreAdjust);
      this.#onChange();
    } catch (error) {
      this.#log.error("service cannot be started", {
        service: spec.name,
        error: error instanceof Error ? error.message : String(error),
      });
      // Not from inside the decision that asked for the start.
      queueMicrotask(() => this.#handle(service, { type: "ended", failed: true }));
    }
  }

  #passOn({ name, credentials }: ServiceSpec): readonly [ServicePipe, ServicePipe] {
    const pipes = [new ServicePipe(credentials), new ServicePipe(credentials)] as const;
    for (const pipe of pipes)
      prefixLines({ output: pipe.output(), name, write: writeToConsole }).catch((error: unknown) =>
        this.#log.warn("output of a service is lost", { service: name, error: String(error) }),
      );
    return pipes;
  }

  #ended(service: Supervised, pid: number, code: number | null, signal: number | string | null): void {
    if (this.#leaving.delete(pid)) {
      this.#log.info("replaced process ended", { service: service.spec.name, pid });
      return;
    }
    service.pid = undefined;
    for (const pipe of service.pipes ?? []) pipe.runEnded();
    this.#onChange();
    const failed = code !== 0;
    if (service.state.phase === "running")
      this.#log.warn("service ended", {
        service: service.spec.name,
        pid,
        ...(signal === null ? { code: code ?? "unknown" } : { signal }),
      });
    const wasStopped = service.state.phase === "stopped";
    const ranMs = performance.now() - service.startedMs;
    if (!wasStopped && service.spec.takesOver?.(ranMs) === true) return;
    this.#handle(service, { type: "ended", failed });
    if (!wasStopped) service.spec.onEnd?.(code);
    if (service.resumed && !this.#down) this.#handle(service, { type: "start" });
    service.resumed = false;
  }
}

async function writeToConsole(lines: Uint8Array): Promise<void> {
  logOutput.write(lines);
  await logOutput.drained();
}

function adjustOomScore(pid: number, adjust: number): void {
  try {
    writeFileSync(`/proc/${pid}/oom_score_adj`, String(adjust));
  } catch {
    // Not privileged, as in a container, or the process has ended already.
  }
}

/** What PID 1 keeps running. */
import type { Credentials } from "#sys/credentials.ts";
import type { RestartPolicy } from "./supervision.ts";

export interface ServiceSpec {
  readonly name: string;
  readonly argv: readonly [string, ...string[]];
  /** the whole environment */
  readonly env: Readonly<Record<string, string>>;
  readonly restart: RestartPolicy;
  /** `console`: writes there itself; `prefixed`: PID 1 puts the service's name before each line */
  readonly output: "console" | "prefixed";
  /** sessions run through it, so that it outlives them when the machine goes down */
  readonly carriesSessions: boolean;
  /** working directory; `/` when absent */
  readonly cwd?: string;
  /** whom it runs as; root when absent */
  readonly credentials?: Credentials | undefined;
  /** what its processes get for oom_score_adj: the lower, the later the kernel ends them for want of memory; 0 when absent */
  readonly oomScoreAdjust?: number;
  /** hears how each run ended: the exit code, or null after a signal */
  readonly onEnd?: (code: number | null) => void;
  /** Hears of an unwanted end after so many milliseconds; true when it has replaced the service, which then is not restarted. */
  readonly takesOver?: (ranMs: number) => boolean;
}

/** How a program that is vmapp-init is started as the agent. */
export function agentCommand(
  executable: readonly [string, ...string[]],
  agentArguments: readonly string[],
): ServiceSpec["argv"] {
  return [...executable, "agent", ...agentArguments];
}

/** the agent gives itself the same */
const lastToBeEnded = -900;

export function declaredServices({
  self,
  agent,
  agentArguments,
  appSocket,
  env,
}: {
  /** how this executable is started, before its sub-command */
  self: readonly [string, ...string[]];
  /** what of the agent an update decides */
  agent: Pick<ServiceSpec, "argv" | "env" | "takesOver">;
  agentArguments: readonly string[];
  /** where the app's core listens, unless it is the usual place */
  appSocket?: string | undefined;
  env: Readonly<Record<string, string>>;
}): ServiceSpec[] {
  return [
    {
      ...agent,
      name: "agent",
      restart: "always",
      output: "console",
      carriesSessions: true,
    },
    {
      name: "bridge",
      argv: [...self, "bridge", ...agentArguments, ...(appSocket === undefined ? [] : ["--socket", appSocket])],
      env,
      restart: "always",
      output: "console",
      carriesSessions: false,
      oomScoreAdjust: lastToBeEnded,
    },
  ];
}

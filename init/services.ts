/** What PID 1 keeps running. */
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
}

export function declaredServices({
  self,
  agentArguments,
  env,
}: {
  /** how this executable is started, before its sub-command */
  self: readonly [string, ...string[]];
  agentArguments: readonly string[];
  env: Readonly<Record<string, string>>;
}): ServiceSpec[] {
  return [
    {
      name: "agent",
      argv: [...self, "agent", ...agentArguments],
      env,
      restart: "always",
      output: "console",
      carriesSessions: true,
    },
  ];
}

/** Runs a Supervisor with the services given as JSON in argv, until its standard input ends. */
import type { ServiceSpec } from "#init/services.ts";
import { Supervisor } from "#init/supervisor.ts";
import { createLog } from "#sys/log.ts";

const supervisor = new Supervisor({ log: createLog("supervise") });
for (const spec of JSON.parse(process.argv[2] ?? "[]") as ServiceSpec[]) supervisor.start(spec);
for (const { name, pid } of supervisor.running()) console.log(`running ${name} owned=${supervisor.owns(pid)}`);

process.stdin.on("end", () => {
  supervisor.stop();
  for (const { pid } of supervisor.running()) process.kill(-pid, "SIGKILL");
  process.exitCode = 0;
});
process.stdin.resume();

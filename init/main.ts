/**
 * The guest's executable, one program with several roles, chosen by the first argument. Each role is loaded only when it
 * is asked for, because what a start loads is what it costs.
 */
import { buildId, versionLine } from "./version.ts";

const usage = `usage: vmapp-init [ROLE [OPTIONS]]

roles:
  init [--listen TARGET]    process 1: boot, reap, supervise, power (the default for process 1)
  agent [--listen TARGET]   the services for the host; TARGET is vsock (the default) or unix:DIR
  bridge [--listen TARGET] [--socket PATH]
                            forward the host's connections to the app's socket
  console                   the console for one client, on standard input and output
  restore LAYER UPPER       put a snapshot into the root's upper directory, before it is mounted
  version                   print the version and the build
`;

async function main(args: readonly string[]): Promise<void> {
  const [role, ...rest] = args;
  switch (role) {
    case "agent": {
      const { runAgent } = await import("#agent/main.ts");
      return runAgent(rest, { build: buildId });
    }
    case "bridge": {
      const { runBridge } = await import("./bridge/main.ts");
      return runBridge(rest);
    }
    case "console": {
      const { runConsole } = await import("#agent/console/main.ts");
      return runConsole();
    }
    case "restore": {
      const { runRestore } = await import("#agent/console/restore.ts");
      return runRestore(rest);
    }
    case "init":
      return runInit(rest);
    case "version":
    case "--version":
      console.log(versionLine);
      return;
    case "help":
    case "--help":
    case "-h":
      process.stdout.write(usage);
      return;
    default:
      // The kernel hands words of its command line that it does not know to process 1, which must not end over them.
      if (process.pid === 1) return runInit([]);
      process.stderr.write(role === undefined ? usage : `vmapp-init: unknown role ${JSON.stringify(role)}\n\n${usage}`);
      process.exitCode = 2;
  }
}

async function runInit(agentArguments: string[]): Promise<void> {
  const { runPid1 } = await import("./pid1.ts");
  runPid1({ self: selfCommand(), agentArguments });
}

/** How to start this program again: the executable alone, or Bun with the source file. */
function selfCommand(): [string, ...string[]] {
  return Bun.main.startsWith("/$bunfs/") ? [process.execPath] : [process.execPath, Bun.main];
}

void main(process.argv.slice(2)).catch((error: unknown) => {
  process.stderr.write(`vmapp-init: ${error instanceof Error ? error.message : String(error)}\n`);
  // An ended process 1 is a kernel panic; without its parts it can at least keep the console readable.
  if (process.pid === 1) setInterval(() => {}, 3_600_000);
  else process.exitCode = 1;
});

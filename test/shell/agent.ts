/** A real agent of this checkout as a process of its own, listening on Unix sockets in a temporary directory. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { childrenOf } from "./processes.ts";

const maxLogCharacters = 256 * 1024;

export interface LocalAgent extends AsyncDisposable {
  /** `unix:DIR` */
  readonly target: string;
  readonly directory: string;
  readonly pid: number;
  /** what the agent has logged so far */
  log(): string;
  stop(): Promise<void>;
}

/**
 * Starts it; resolves once every service listens, or at once when told not to wait. Rejects with the agent's own output
 * when it ends before that.
 */
export async function startLocalAgent({ waitForReady = true } = {}): Promise<LocalAgent> {
  const directory = mkdtempSync(join(tmpdir(), "vmapp-agent-"));
  const child = Bun.spawn(
    [process.execPath, join(import.meta.dirname, "../../init/main.ts"), "agent", "--listen", `unix:${directory}`],
    {
      stdin: "ignore",
      stdout: "inherit",
      stderr: "pipe",
      env: { ...process.env, TMPDIR: tmpdir() },
    },
  );
  const stop = async () => {
    // Each command leads a group of its own, and one on pipes does not notice that its agent has gone.
    const commands = childrenOf(child.pid);
    child.kill("SIGKILL");
    await child.exited;
    for (const pid of commands) killGroup(pid);
    rmSync(directory, { recursive: true, force: true });
  };
  const reader = child.stderr.getReader();
  let output = "";
  while (waitForReady) {
    const { value, done } = await reader.read();
    if (done) {
      await stop();
      throw new Error(`the agent ended before it listened: ${output}`);
    }
    output += new TextDecoder().decode(value);
    if (output.includes("ready")) break;
  }
  const collect = async () => {
    for (let read = await reader.read(); !read.done; read = await reader.read())
      output = (output + new TextDecoder().decode(read.value)).slice(-maxLogCharacters);
  };
  void collect();
  return {
    target: `unix:${directory}`,
    directory,
    pid: child.pid,
    log: () => output,
    stop,
    [Symbol.asyncDispose]: stop,
  };
}

function killGroup(group: number): void {
  try {
    process.kill(-group, "SIGKILL");
  } catch {
    // It has ended by itself.
  }
}

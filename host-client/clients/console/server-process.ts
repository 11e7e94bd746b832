/** A console server that is started here and spoken to over its standard input and output. */
import { type ChildProcessByStdio, spawn } from "node:child_process";
import type { Readable, Writable } from "node:stream";
import { type ConsoleChannel, FrameStreams } from "./channel.ts";

export interface ServerCommand {
  /** the program and its arguments */
  readonly command: readonly string[];
  /** the whole environment; this process's when absent */
  readonly env?: Readonly<Record<string, string | undefined>>;
  /** this process's when absent */
  readonly cwd?: string;
}

/** how long the server's last words may take after it has ended, in milliseconds */
const lastWordsMs = 1000;

/** Starts the server. Rejects when it cannot be started. Its standard error is copied to ours. */
export async function startServer({ command, env, cwd }: ServerCommand): Promise<ConsoleChannel> {
  const [program, ...args] = command;
  if (program === undefined) throw new Error("an empty command starts no console server");
  const child: ChildProcessByStdio<Writable, Readable, Readable> = spawn(program, args, {
    stdio: ["pipe", "pipe", "pipe"],
    ...(env === undefined ? {} : { env: { ...env } as NodeJS.ProcessEnv }),
    ...(cwd === undefined ? {} : { cwd }),
  });
  const stderrEnded = new Promise<void>((resolve) => child.stderr.once("close", () => resolve()));
  child.stderr.on("data", (chunk: Uint8Array) => process.stderr.write(chunk));
  const exited = new Promise<string | undefined>((resolve) => {
    child.once("exit", (code, signal) => resolve(code === 0 ? undefined : (signal ?? `status ${code}`)));
  });
  await new Promise<void>((resolve, reject) => {
    child.once("spawn", () => resolve());
    child.once("error", reject);
  });
  const streams = new FrameStreams({ input: child.stdout, output: child.stdin });
  return {
    send: (pieces) => streams.send(pieces),
    next: () => streams.next(),
    end: async () => {
      child.stdin.end();
      const failure = await exited;
      await Promise.race([stderrEnded, delay(lastWordsMs)]);
      if (failure !== undefined) throw new Error(`the console server ended with ${failure}`);
    },
    // The server sees the end of its input; it is never killed, since it may have something to put in order.
    abandon: () => {
      child.stdin.destroy();
      child.stdout.destroy();
    },
  };
}

function delay(milliseconds: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, milliseconds).unref());
}

/** The console on this process's standard input and output: `vmapp-init console`. Logs go to standard error. */
import { constants } from "node:os";
import { createLog } from "#sys/log.ts";
import { Channel } from "./channel.ts";
import { serveConsole } from "./server.ts";
import { placeHere } from "./service.ts";
import { Session } from "./session.ts";

/** exit status when the channel broke: a bad frame, or an end inside one */
const brokenStatus = 126;

let taken = false;

/** Serves until `quit` or the end of the input, and ends the process. Once a process: the two streams are taken. */
export async function runConsole(): Promise<never> {
  if (taken) throw new Error("standard input and output are taken by a console already");
  taken = true;
  const log = createLog("vmapp-console");
  process.on("uncaughtException", (error) => log.error("uncaught exception", { error: String(error.stack) }));
  process.on("unhandledRejection", (reason) => log.error("unhandled rejection", { error: String(reason) }));
  const session = new Session(placeHere());
  for (const signal of ["SIGTERM", "SIGINT", "SIGHUP"] as const) {
    // A tree that stayed would be in the way of the next session, and a command has a session of its own.
    process.on(signal, () => void session.end().then(() => process.exit(128 + constants.signals[signal])));
  }
  const streams = { input: process.stdin, output: process.stdout, outputFd: () => 1 };
  const channel = new Channel(streams, () => session.interrupt());
  // A paused input and the thread that watches a command's output do not keep the process alive.
  const alive = setInterval(() => {}, 3_600_000);
  const end = await serveConsole({ channel, session, log });
  clearInterval(alive);
  // What is queued is written before the stream calls back; exiting right away would lose it.
  await new Promise<void>((resolve) => process.stdout.write("", () => resolve()));
  // Not by running out of work: an input that is still open would keep the process.
  process.exit(end === "broken" ? brokenStatus : 0);
}

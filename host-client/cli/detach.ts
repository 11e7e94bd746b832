import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { closeSync, openSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import type { Readable } from "node:stream";
import { z } from "zod";
import { VmError } from "../vm/error.ts";
import type { StartVmOptions } from "../vm/start.ts";
import { openStateRoot } from "../vm/state-root.ts";
import { selfCommand } from "./self.ts";

/** The hidden command by which the CLI runs itself as the owner of a VM. */
export const ownerCommandName = "own-vm";
/** The owner reports on this file descriptor: one line of JSON. */
export const reportFd = 3;

/** What the owner says once its VM runs, or will not. */
export const reportSchema = z.discriminatedUnion("ok", [
  z.object({ ok: z.literal(true), name: z.string(), readyAfterMs: z.number() }),
  z.object({ ok: z.literal(false), message: z.string() }),
]);
export type Report = z.infer<typeof reportSchema>;

/** Options as the owner gets them on its standard input, with the log that becomes `owner.log`. */
export interface OwnerOrder {
  options: StartVmOptions;
  logPath: string;
}

/** The owner's own deadline comes first; this only covers an owner that hangs. */
const ownerGraceMs = 30_000;
const maxReportBytes = 256 * 1024;

/**
 * Starts a VM that outlives this process: a background process in a session of its own becomes its owner. Resolves
 * when the guest answers. Throws {@link VmError} with the owner's reason. The signal ends the owner.
 */
export async function startDetached(
  options: StartVmOptions & { timeoutMs: number },
  signal: AbortSignal,
): Promise<Extract<Report, { ok: true }>> {
  const logPath = join(openStateRoot(), `.owner-${randomUUID()}.log`);
  const log = openSync(logPath, "wx", 0o600);
  const order: OwnerOrder = { options, logPath };
  const [program, ...args] = selfCommand();
  const owner = spawn(program, [...args, ownerCommandName], { detached: true, stdio: ["pipe", log, log, "pipe"] });
  closeSync(log);
  const failed = new Promise<never>((_, reject) => {
    owner.once("error", (cause) =>
      reject(new VmError("start_failed", `cannot run ${program}: ${cause.message}`, cause)),
    );
  });
  const onAbort = () => owner.kill("SIGTERM");
  signal.addEventListener("abort", onAbort, { once: true });
  const timer = setTimeout(() => owner.kill("SIGKILL"), options.timeoutMs + ownerGraceMs);
  try {
    owner.stdin?.on("error", () => {});
    owner.stdin?.end(JSON.stringify(order));
    const line = await Promise.race([readLine(owner.stdio[reportFd] as Readable), failed]);
    if (line === "") throw new VmError("start_failed", `the owner of the VM ended without a word${quoteLog(logPath)}`);
    const report = reportSchema.parse(JSON.parse(line));
    if (!report.ok) throw new VmError("start_failed", report.message);
    return report;
  } finally {
    clearTimeout(timer);
    signal.removeEventListener("abort", onAbort);
    // The owner has moved the log into its state directory if it got that far.
    rmSync(logPath, { force: true });
    owner.unref();
  }
}

async function readLine(stream: Readable): Promise<string> {
  let text = "";
  for await (const chunk of stream) {
    text += String(chunk);
    if (text.includes("\n") || text.length > maxReportBytes) break;
  }
  return text.split("\n")[0] ?? "";
}

function quoteLog(path: string): string {
  try {
    const text = readFileSync(path, "utf8").trim();
    return text === "" ? "" : `:\n${text}`;
  } catch {
    return "";
  }
}

import { createInterface } from "node:readline/promises";
import { VmError } from "../vm/error.ts";
import { currentState, listVmRecords } from "../vm/state.ts";
import { openStateRoot } from "../vm/state-root.ts";
import { startDetached } from "./detach.ts";
import { note, standardError } from "./output.ts";
import { onStopSignal } from "./stop-signals.ts";

const startTimeoutMs = 60_000;
const startCommand = "vmapp run --detach";

/**
 * The guest that is meant when none was named: the only one that runs, or the one that the user picks; with none running,
 * one that is started if the user agrees. Without a terminal to ask on, an error says what to write instead.
 */
export async function chooseGuest(): Promise<string> {
  const running = listVmRecords(openStateRoot())
    .filter((record) => currentState(record) === "running")
    .map((record) => record.name);
  const [only] = running;
  if (only === undefined) return startAfterAsking();
  if (running.length === 1) return only;
  return pick(running);
}

async function pick(names: readonly string[]): Promise<string> {
  const list = names.join(", ");
  if (!canAsk()) throw new VmError("bad_option", `several VMs are running, so name one of them: ${list}`);
  const answer = await ask(`several VMs are running: ${list}\nwhich one? [${names[0]}] `);
  const name = answer === "" ? names[0] : names.find((candidate) => candidate === answer);
  if (name === undefined) throw new VmError("no_such_vm", `${JSON.stringify(answer)} is none of: ${list}`);
  return name;
}

async function startAfterAsking(): Promise<string> {
  if (!canAsk()) throw new VmError("not_running", `no VM is running; start one with: ${startCommand}`);
  const answer = await ask("no VM is running; start one? [Y/n] ");
  if (!/^(y|yes)?$/i.test(answer))
    throw new VmError("not_running", `no VM is running; start one with: ${startCommand}`);
  const givenUp = new AbortController();
  const undo = onStopSignal(() => givenUp.abort());
  try {
    const { name } = await startDetached({ timeoutMs: startTimeoutMs, remove: true }, givenUp.signal);
    note(`started ${name}, which stays; to end it: vmapp stop ${name}`);
    return name;
  } finally {
    undo();
  }
}

function canAsk(): boolean {
  return process.stdin.isTTY === true && process.stderr.isTTY === true;
}

/** Asks on standard error, so that standard output stays the command's. End of input is no answer but a refusal. */
async function ask(question: string): Promise<string> {
  const prompt = createInterface({ input: process.stdin, output: standardError() });
  const refused = new Promise<never>((_, reject) => {
    prompt.once("close", () => reject(new VmError("aborted", "no answer")));
  });
  refused.catch(() => {});
  try {
    return (await Promise.race([prompt.question(question), refused])).trim();
  } finally {
    prompt.close();
  }
}

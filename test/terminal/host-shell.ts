/** A user's own shell, from which the CLI is started as users start it, and what is left of the terminal afterwards. */
import { expect } from "bun:test";
import { childrenOf } from "#test/shell/processes.ts";
import { TestTerminal } from "#test/terminal/terminal.ts";

/** An interactive shell on a terminal, with variables for the CLI and for the guest. */
export async function hostShell({
  vmapp,
  target,
}: {
  vmapp: readonly string[];
  target: string;
}): Promise<TestTerminal> {
  const terminal = await TestTerminal.start({
    command: ["bash", "--norc", "--noprofile", "-i"],
    env: { PS1: "host> ", vmapp: vmapp.join(" "), target },
    cols: 100,
  });
  await terminal.until("host>");
  return terminal;
}

/** Starts the client in the user's shell and waits for what its command prints. Returns the client's pid. */
export async function startClient(terminal: TestTerminal, command: string, shows: string | RegExp): Promise<number> {
  terminal.type(`clear; ${command}\r`);
  await terminal.until(shows);
  const [client] = childrenOf(await terminal.pid);
  if (client === undefined) throw new Error("the shell has no child");
  return client;
}

const flagNames = ["echo", "icanon", "icrnl", "iexten", "isig", "ixon", "onlcr", "opost"];
let checks = 0;

/** The user's shell has the terminal again, as it was, and the client exited with that status. */
export async function expectSane(terminal: TestTerminal, status: number): Promise<void> {
  const check = `check${++checks}`;
  const flags = `stty -a | grep -E -o '(^| )-?(${flagNames.join("|")})\\b'`;
  terminal.type(`status=$?; clear; echo ${check}: $status $(${flags})\r`);
  const answer = new RegExp(`^${check}: (\\d+) (.*)$`, "m");
  await terminal.until(answer);
  const [, exit, found = ""] = answer.exec(terminal.text) ?? [];
  expect(Number(exit)).toBe(status);
  expect(found.split(" ").sort()).toEqual(flagNames);
  expect(terminal.alternate).toBe(false);
}

/** What is left of the user's terminal when `vmapp shell` ends, in each way that it can. */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { join } from "node:path";
import { type LocalAgent, startLocalAgent } from "#test/shell/agent.ts";
import { eventually, isAlive } from "#test/shell/processes.ts";
import { sourceCli } from "#test/terminal/cli.ts";
import { expectSane, hostShell, startClient } from "#test/terminal/host-shell.ts";

setDefaultTimeout(30_000);

let agent: LocalAgent;
beforeAll(async () => {
  agent = await startLocalAgent();
});
afterAll(() => agent.stop());

const crashingClient = join(import.meta.dir, "../terminal/crashing-client.ts");
const cat = `$vmapp shell $target -- sh -c 'echo ready; exec cat'`;

describe.concurrent("the user's terminal is as it was", () => {
  test("when the command exits", async () => {
    await using terminal = await hostShell({ vmapp: sourceCli, target: agent.target });
    await startClient(terminal, "$vmapp shell $target -- sh -c 'echo ready; read x; exit 9'", /^ready$/m);
    terminal.type("\r");
    await terminal.until(/host> ?$/m);
    await expectSane(terminal, 9);
  });

  test("when the user disconnects", async () => {
    await using terminal = await hostShell({ vmapp: sourceCli, target: agent.target });
    await startClient(terminal, cat, /^ready$/m);
    terminal.type("~.");
    await terminal.until("disconnected");
    await expectSane(terminal, 255);
  });

  for (const [signal, status] of [
    ["SIGTERM", 143],
    ["SIGHUP", 129],
    ["SIGINT", 130],
  ] as const) {
    test(`when the client gets ${signal}`, async () => {
      await using terminal = await hostShell({ vmapp: sourceCli, target: agent.target });
      const client = await startClient(terminal, cat, /^ready$/m);
      process.kill(client, signal);
      await terminal.until(/host> ?$/m);
      await expectSane(terminal, status);
    });
  }

  test("when the client is killed, under a shell with job control", async () => {
    await using terminal = await hostShell({ vmapp: sourceCli, target: agent.target });
    const client = await startClient(terminal, cat, /^ready$/m);
    process.kill(client, "SIGKILL");
    await terminal.until("Killed");
    await expectSane(terminal, 137);
  });

  test("when the client gets SIGTERM while the terminal takes nothing", async () => {
    await using terminal = await hostShell({ vmapp: sourceCli, target: agent.target });
    const client = await startClient(terminal, "$vmapp shell $target -- sh -c 'echo ready; yes'", /^y$/m);
    terminal.flow("pause");
    await Bun.sleep(1_000);
    process.kill(client, "SIGTERM");
    await eventually("the client has ended", () => !isAlive(client));
    terminal.flow("resume");
    await terminal.until(/host>$/m);
    await expectSane(terminal, 143);
  });

  test("when the agent ends in the middle of the session, which is told", async () => {
    const own = await startLocalAgent();
    try {
      await using terminal = await hostShell({ vmapp: sourceCli, target: agent.target });
      await startClient(terminal, cat.replace("$target", own.target), /^ready$/m);
      process.kill(own.pid, "SIGKILL");
      await terminal.until("connection to the VM closed (VM stopped or restarted?)");
      await expectSane(terminal, 255);
    } finally {
      await own.stop();
    }
  });

  test("when the client fails in a way that nobody catches", async () => {
    await using terminal = await hostShell({ vmapp: sourceCli, target: agent.target });
    await startClient(terminal, `${process.execPath} ${crashingClient} $target`, /^ready$/m);
    terminal.type("x");
    await terminal.until(/^error: a fault that nobody catches[\s\S]*host> ?$/m);
    await expectSane(terminal, 1);
  });

  test("when a full-screen program is cut off: the screen, the cursor and the mouse too", async () => {
    await using terminal = await hostShell({ vmapp: sourceCli, target: agent.target });
    const enter = "\\033[?1049h\\033[?25l\\033[?1000;1006h\\033[?2004h";
    const script = `printf "${enter}"; echo in the alternate screen; exec cat`;
    const client = await startClient(terminal, `$vmapp shell $target -- sh -c '${script}'`, /^in the alt/m);
    expect(terminal.alternate).toBe(true);
    process.kill(client, "SIGTERM");
    await terminal.until(() => !terminal.alternate);
    const output = terminal.output.toString("latin1");
    const restored = "\x1b[0m\x1b[?25h\x1b[?1000l\x1b[?1006l\x1b[?2004l\x1b[?1049l";
    expect(output).toContain(restored);
    await expectSane(terminal, 143);
  });

  test("while the client is suspended by ~^Z, and raw again after fg", async () => {
    await using terminal = await hostShell({ vmapp: sourceCli, target: agent.target });
    await startClient(terminal, cat, /^ready$/m);
    terminal.type("~\x1a");
    await terminal.until("Stopped");
    await expectSane(terminal, 148);
    terminal.type("fg\r");
    await terminal.until(/^\$vmapp shell/m);
    terminal.resize(77, 20);
    terminal.type("back again\r");
    await terminal.until("back again\nback again");
    terminal.type("\x04");
    await terminal.until(/back again\nback again\nhost> ?$/m);
    await expectSane(terminal, 0);
  });

  test("when the terminal itself goes away, and the client and its command go too", async () => {
    const terminal = await hostShell({ vmapp: sourceCli, target: agent.target });
    const client = await startClient(terminal, "$vmapp shell $target -- sh -c 'echo pid $$; exec cat'", /^pid \d+$/m);
    const command = Number(/^pid (\d+)$/m.exec(terminal.text)?.[1]);
    await terminal[Symbol.asyncDispose]();
    await eventually("the client has ended", () => !isAlive(client));
    await eventually("the command has ended", () => !isAlive(command));
  });
});

/** Sessions of a guest that has stopped answering, at the real intervals: they are looked after every 5 s. */
import { describe, expect, setDefaultTimeout, test } from "bun:test";
import { mkdtempSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { closedMessage, ShellError } from "#host/clients/shell/error.ts";
import type { ShellSession } from "#host/clients/shell/session.ts";
import { Guest } from "#host/guest.ts";
import { ports, unixSocketName } from "#protocol/ports.ts";
import { startLocalAgent } from "#test/shell/agent.ts";
import { isAlive } from "#test/shell/processes.ts";
import { sourceCli } from "#test/terminal/cli.ts";
import { StickyForwarder } from "#test/terminal/sticky-forwarder.ts";

setDefaultTimeout(60_000);

/** from the last byte to the third miss, in milliseconds, and what a busy machine adds */
const endsAfterMs = { least: 15_000, most: 30_000 };

/** The session still carries bytes both ways. */
async function expectEcho(session: ShellSession, word: string): Promise<void> {
  session.stdin.write(`${word}\n`);
  for await (const chunk of session.stdout) {
    expect(String(chunk)).toBe(`${word}\n`);
    break;
  }
}

const openCat = (target: string): Promise<ShellSession> => Guest.connect(target).shell({ argv: ["cat"] });

describe.concurrent("a silent session", () => {
  test("ends after three misses when the guest hangs, with the contract's message and 255", async () => {
    const agent = await startLocalAgent();
    try {
      const client = Bun.spawn([...sourceCli, "exec", agent.target, "--", "sh", "-c", "echo ready; sleep 1000"], {
        stdin: "ignore",
        stdout: "pipe",
        stderr: "pipe",
      });
      const { value } = await client.stdout.getReader().read();
      expect(String(new TextDecoder().decode(value))).toBe("ready\n");
      process.kill(agent.pid, "SIGSTOP");
      const started = performance.now();
      expect(await client.exited).toBe(255);
      const tookMs = performance.now() - started;
      expect(tookMs).toBeGreaterThan(endsAfterMs.least);
      expect(tookMs).toBeLessThan(endsAfterMs.most);
      expect(await new Response(client.stderr).text()).toBe(`vmapp: ${closedMessage}\n`);
    } finally {
      await agent.stop();
    }
  });

  test("goes on when the guest answers again before the third miss", async () => {
    const agent = await startLocalAgent();
    try {
      const session = await openCat(agent.target);
      await session.started;
      process.kill(agent.pid, "SIGSTOP");
      await Bun.sleep(13_000);
      process.kill(agent.pid, "SIGCONT");
      await Bun.sleep(13_000);
      await expectEcho(session, "still here");
      session.stdin.end();
      expect(await session.exit).toEqual({ code: 0 });
    } finally {
      await agent.stop();
    }
  });

  test("ends when the guest has rebooted on a transport that keeps the connection open", async () => {
    const former = await startLocalAgent();
    await using forwarder = new StickyForwarder();
    await forwarder.forward(ports.shell, former.directory);
    await forwarder.forward(ports.control, former.directory);
    const session = await openCat(forwarder.target);
    await session.started;
    await former.stop();
    const started = performance.now();
    const error = await session.exit.catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(ShellError);
    expect((error as ShellError).message).toBe(closedMessage);
    expect(performance.now() - started).toBeLessThan(12_000);
  });

  test("is left alone where the guest does not offer the control service", async () => {
    const agent = await startLocalAgent();
    const directory = mkdtempSync(join(tmpdir(), "vmapp-shell-only-"));
    try {
      const name = unixSocketName(ports.shell);
      symlinkSync(join(agent.directory, name), join(directory, name));
      const session = await openCat(`unix:${directory}`);
      await session.started;
      process.kill(agent.pid, "SIGSTOP");
      await Bun.sleep(26_000);
      process.kill(agent.pid, "SIGCONT");
      await expectEcho(session, "still here");
      session.stdin.end();
      expect(await session.exit).toEqual({ code: 0 });
      expect(isAlive(agent.pid)).toBe(true);
    } finally {
      await agent.stop();
      rmSync(directory, { recursive: true });
    }
  });
});

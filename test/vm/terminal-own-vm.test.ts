/** The whole way of a user without a VM: `vmapp shell` starts one, and its sessions end when it reboots without a word. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { builtCli } from "#test/terminal/cli.ts";
import { TestTerminal } from "#test/terminal/terminal.ts";
import { bootTimeoutMs } from "./fixture.ts";

const closed = "connection to the VM closed (VM stopped or restarted?)";

let runtime: string;
let env: Record<string, string>;
beforeAll(() => {
  runtime = mkdtempSync(join(tmpdir(), "vmapp-own-"));
  env = { XDG_RUNTIME_DIR: runtime };
});

function spawnCli(args: readonly string[]): Bun.Subprocess<"ignore", "pipe", "pipe"> {
  return Bun.spawn([...builtCli, ...args], {
    stdin: "ignore",
    stdout: "pipe",
    stderr: "pipe",
    env: { ...process.env, ...env },
  });
}

async function cli(...args: string[]): Promise<string> {
  const child = spawnCli(args);
  const [stdout, stderr, code] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
    child.exited,
  ]);
  if (code !== 0) throw new Error(`vmapp ${args.join(" ")}: exit ${code}: ${stderr}`);
  return stdout;
}

const runningVms = async (): Promise<string[]> =>
  (JSON.parse(await cli("list", "--json")) as { name: string }[]).map(({ name }) => name);

afterAll(async () => {
  for (const name of await runningVms()) {
    const log = readFileSync(join(runtime, "vmapp", name, "console.log"), "utf8");
    await cli("stop", "--rm", name);
    expect(log).not.toContain("Kernel panic");
  }
  rmSync(runtime, { recursive: true });
}, 60_000);

describe("without a VM", () => {
  test(
    "vmapp shell offers to start one, ends at its prompt, and leaves it running",
    async () => {
      await using terminal = await TestTerminal.start({ command: [...builtCli, "shell"], env });
      await terminal.until("start one? [Y/n]");
      terminal.type("\r");
      await terminal.until(/^[^\n]*[#$]$/m, bootTimeoutMs);
      terminal.type("stty size; uname -n; exit 6\r");
      expect((await terminal.exited).code).toBe(6);
      const [name] = await runningVms();
      expect(terminal.text).toContain(`started ${name}, which stays`);
      expect(terminal.text).toContain(`24 80\n${name}\n`);
    },
    2 * bootTimeoutMs,
  );

  test(
    "and when that one reboots without a word, a session with nothing to send ends with the contract's message and 255",
    async () => {
      const [name = ""] = await runningVms();
      const bootId = () => cli("exec", name, "--", "cat", "/proc/sys/kernel/random/boot_id");
      const former = await bootId();
      const onPipes = spawnCli(["exec", name, "--", "sh", "-c", "echo at rest; exec sleep 1000"]);
      await onPipes.stdout.getReader().read();
      await using onPty = await TestTerminal.start({ command: [...builtCli, "shell", "--", "cat"], env });
      onPty.type("at rest\r");
      await onPty.until("at rest\nat rest");

      await cli("exec", name, "--", "reboot", "-f").catch(() => {});
      const [message, code, end] = await Promise.all([
        new Response(onPipes.stderr).text(),
        onPipes.exited,
        onPty.exited,
      ]);
      expect(message).toContain(closed);
      expect(code).toBe(255);
      expect(onPty.output.toString()).toContain(closed);
      expect(end.code).toBe(255);

      const deadline = performance.now() + bootTimeoutMs;
      while ((await bootId().catch(() => former)) === former) {
        if (performance.now() > deadline) throw new Error(`no new boot:\n${await cli("logs", name)}`);
        await Bun.sleep(200);
      }
    },
    2 * bootTimeoutMs,
  );
});

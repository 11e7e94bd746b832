/** A guest that reboots in place tells nobody: its sessions must end all the same. */
import { beforeAll, describe, expect, test } from "bun:test";
import type { Vm } from "#host/vm/vm.ts";
import { builtCli } from "#test/terminal/cli.ts";
import { TestTerminal } from "#test/terminal/terminal.ts";
import { bootTimeoutMs, startTestVm } from "./fixture.ts";

const closed = "connection to the VM closed (VM stopped or restarted?)";

let vm: Vm;
beforeAll(async () => {
  vm = await startTestVm();
}, bootTimeoutMs);

const bootId = async (): Promise<string> =>
  (await vm.guest.exec(["cat", "/proc/sys/kernel/random/boot_id"])).stdout.toString().trim();

/** The guest answers again, and it is another boot. */
async function untilRebooted(former: string): Promise<void> {
  const deadline = performance.now() + bootTimeoutMs;
  while ((await bootId().catch(() => former)) === former) {
    if (performance.now() > deadline) throw new Error(`no new boot:\n${vm.consoleTail(20).join("\n")}`);
    await Bun.sleep(200);
  }
}

describe("a guest that reboots without a word", () => {
  test(
    "ends a session that has nothing to send, with the contract's message and 255",
    async () => {
      const former = await bootId();
      const onPipes = Bun.spawn([...builtCli, "exec", vm.name, "--", "sh", "-c", "echo at rest; exec sleep 1000"], {
        stdin: "ignore",
        stdout: "pipe",
        stderr: "pipe",
        env: process.env,
      });
      await onPipes.stdout.getReader().read();
      await using onPty = await TestTerminal.start({ command: [...builtCli, "shell", vm.name, "--", "cat"] });
      onPty.type("at rest\r");
      await onPty.until("at rest\nat rest");

      await vm.guest.exec(["reboot", "-f"]).catch(() => {});
      const [message, code, end] = await Promise.all([
        new Response(onPipes.stderr).text(),
        onPipes.exited,
        onPty.exited,
      ]);
      expect(message).toContain(closed);
      expect(code).toBe(255);
      expect(onPty.output.toString()).toContain(closed);
      expect(end.code).toBe(255);
      await untilRebooted(former);
    },
    2 * bootTimeoutMs,
  );
});

/** VMs as the library and the CLI run them. */
import { beforeAll, describe, expect, test } from "bun:test";
import { createHash, randomBytes } from "node:crypto";
import { existsSync, lstatSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { Guest } from "#host/guest.ts";
import { runCli, spawnCli } from "#test/host/cli.ts";
import { bootTimeoutMs, requireNoPanic, sharedGuest, sharedVm, startTestVm, useOwnStateRoot } from "./fixture.ts";

const startTimeout = ["--timeout", "120"];
let guest: Guest;

beforeAll(async () => {
  guest = await sharedGuest();
}, bootTimeoutMs);

const bootIdCommand = ["cat", "/proc/sys/kernel/random/boot_id"];

/** Asks until the guest answers from another boot than that one. */
async function waitForNextBoot(guest: Guest, bootId: string): Promise<void> {
  const deadline = performance.now() + 120_000;
  for (;;) {
    try {
      const { stdout } = await guest.exec(bootIdCommand, { timeoutMs: 20_000 });
      if (stdout.length > 0 && stdout.toString() !== bootId) return;
      throw new Error("the guest has not rebooted");
    } catch (error) {
      if (performance.now() > deadline) throw error;
      await Bun.sleep(300);
    }
  }
}

describe("a VM", () => {
  test("is reached by its name, has it as host name, and runs vmapp-init as process 1", async () => {
    const named = await runCli(["exec", "shared", "--", "sh", "-c", "hostname; readlink /proc/1/exe"]);
    expect(named).toEqual({ code: 0, stdout: "shared\n/opt/vmapp/bin/vmapp-init\n", stderr: "" });
  });

  test("keeps its state to the user", async () => {
    const { directory } = await sharedVm();
    expect(lstatSync(directory).mode & 0o777).toBe(0o700);
    for (const file of ["vm.json", "console.log"]) expect(lstatSync(join(directory, file)).mode & 0o077).toBe(0);
  });

  test("is listed, for people and for machines", async () => {
    expect((await runCli(["list"])).stdout).toMatch(/^shared +running +512 MiB/m);
    const vms = JSON.parse((await runCli(["list", "--json"])).stdout);
    expect(vms).toContainEqual(expect.objectContaining({ name: "shared", state: "running", memoryMib: 512 }));
  });

  test("shows its console with vmapp logs", async () => {
    const { code, stdout } = await runCli(["logs", "shared"]);
    expect(code).toBe(0);
    expect(stdout).toContain("vmapp-stage0: switch_root");
  });

  test("takes 16 MiB of input over real vsock whole", async () => {
    const bytes = randomBytes(16 * 1024 * 1024);
    const hash = createHash("sha256").update(bytes).digest("hex");
    const run = await runCli(["exec", "-i", "shared", "--", "sha256sum"], { stdin: bytes });
    expect(run).toEqual({ code: 0, stdout: `${hash}  -\n`, stderr: "" });
  }, 120_000);

  test("refuses a port without a listener, with the end of its console in the message", async () => {
    await expect(guest.dial(4321)).rejects.toMatchObject({ code: "unreachable", cause: { code: "refused" } });
    await expect(guest.dial(4321)).rejects.toThrow("The console of shared ends with:\n  | ");
    expect((await guest.exec(["true"])).code).toBe(0);
  });

  test("keeps its name while it runs", async () => {
    const second = await runCli(["run", "--name", "shared", "--detach", ...startTimeout]);
    expect(second.code).toBe(255);
    expect(second.stderr).toContain("already running");
    expect((await guest.exec(["true"])).code).toBe(0);
  });
});

describe("beside another VM", () => {
  test(
    "each is itself; a reboot of one ends its sessions, brings it back, and leaves the other alone",
    async () => {
      const other = await startTestVm({ name: "other", memoryMib: 256, cpus: 1 });
      const names = await Promise.all([guest, other.guest].map((each) => each.exec(["hostname"])));
      expect(names.map(({ stdout }) => stdout.toString().trim())).toEqual(["shared", "other"]);

      const session = await other.guest.shell({ argv: ["sleep", "600"] });
      await session.started;
      const bootId = (await other.guest.exec(bootIdCommand)).stdout.toString();
      await other.guest.exec(["reboot"]).catch(() => {});
      // With the status of the SIGTERM on the way down, or with the connection that was cut.
      const end = await session.exit.then(
        ({ code }) => code,
        (error: Error) => error.name,
      );
      expect([143, "ShellError"]).toContain(end);
      await waitForNextBoot(other.guest, bootId);
      expect(readFileSync(join(other.directory, "console.log"), "utf8").match(/vmapp-stage0: start/g)).toHaveLength(2);
      expect((await guest.exec(["true"])).code).toBe(0);

      expect((await runCli(["list"])).stdout).toMatch(/^other +running/m);
      const stopped = await runCli(["stop", "other"]);
      expect(stopped).toEqual({ code: 0, stdout: "other: the guest powered off\n", stderr: "" });
      expect(await other.exited).toEqual({ state: "stopped", reason: "the guest powered off" });
      expect((await runCli(["exec", "other", "--", "true"])).stderr).toContain("not running (stopped");
      requireNoPanic(other);
      expect((await guest.exec(["true"])).code).toBe(0);
    },
    2 * bootTimeoutMs,
  );
});

describe("vmapp run", () => {
  test(
    "without a terminal runs uname, says how long the boot took, powers off and leaves nothing behind",
    async () => {
      const root = join(useOwnStateRoot(), "vmapp");
      const before = JSON.parse((await runCli(["list", "--json"])).stdout).length;
      const run = await runCli(["run", ...startTimeout]);
      expect(run.code).toBe(0);
      expect(run.stdout).toMatch(/^Linux \S+ \d/);
      expect(run.stdout).toMatch(/boot: kernel [\d.]+ s, stage 0 [\d.]+ s, services [\d.]+ s/);
      expect(run.stderr).toContain("the guest powered off");
      expect(JSON.parse((await runCli(["list", "--json"])).stdout)).toHaveLength(before);
      expect(existsSync(root)).toBe(true);
    },
    bootTimeoutMs,
  );

  test(
    "with a session disk keeps what the guest wrote, and gives the command's exit status",
    async () => {
      const disk = join(useOwnStateRoot(), "work.img");
      const run = (script: string) =>
        runCli(["run", "--disk", `${disk}:64`, ...startTimeout, "--", "sh", "-c", script]);
      expect(await run("echo kept > /root/file; exit 3")).toMatchObject({ code: 3 });
      expect(await run("cat /root/file")).toMatchObject({ code: 0, stdout: "kept\n" });
    },
    2 * bootTimeoutMs,
  );

  test(
    "ends the VM cleanly on SIGTERM, with the status of the signal",
    async () => {
      const child = spawnCli(["run", "--name", "signalled", ...startTimeout, "--", "sh", "-c", "echo up; sleep 600"]);
      const reader = child.stdout.getReader();
      expect(Buffer.from((await reader.read()).value ?? []).toString()).toBe("up\n");
      child.kill("SIGTERM");
      const stderr = await new Response(child.stderr).text();
      expect(await child.exited).toBe(143);
      expect(stderr).toContain("the guest powered off");
      const [vm] = JSON.parse((await runCli(["list", "--json"])).stdout).filter(
        ({ name }: { name: string }) => name === "signalled",
      );
      expect(vm).toMatchObject({ state: "stopped" });
    },
    bootTimeoutMs,
  );
});

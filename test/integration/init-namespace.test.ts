/**
 * The real PID 1 with the real agent, as process 1 of a PID namespace on this machine. Its user namespace keeps it from
 * anything outside, and the agent listens on Unix sockets.
 */
import { afterEach, describe, expect, test } from "bun:test";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { Guest } from "#host/guest.ts";

const main = resolve(import.meta.dir, "../../init/main.ts");
const namespaces = ["--user", "--map-root-user", "--pid", "--fork", "--kill-child", "--mount-proc", "--uts", "--mount"];
/** The places where PID 1 writes are memory of the namespace's own. */
const script = 'mount -t tmpfs run /run && mount -t tmpfs lib /var/lib && exec "$@"';

interface Contained {
  readonly guest: Guest;
  /** how `unshare` ends: 128 + 2 after power-off and halt, 128 + 1 after a reboot, as the kernel tells it */
  readonly exited: Promise<number>;
  /** everything on the console so far */
  console(): string;
  signal(name: string): Promise<void>;
}

const cleanups: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0)) await cleanup();
});

async function until(what: string, condition: () => boolean | Promise<boolean>): Promise<void> {
  const deadline = performance.now() + 10_000;
  while (!(await condition())) {
    if (performance.now() > deadline) throw new Error(`not within 10 s: ${what}`);
    await Bun.sleep(20);
  }
}

async function startContained({ wrapper = [] }: { wrapper?: readonly string[] } = {}): Promise<Contained> {
  const directory = mkdtempSync(join(tmpdir(), "vmapp-init-"));
  const sockets = join(directory, "sockets");
  const log = join(directory, "console.log");
  const child = Bun.spawn(
    [
      "unshare",
      ...namespaces,
      "sh",
      "-c",
      script,
      "sh",
      ...wrapper,
      process.execPath,
      main,
      "init",
      "--listen",
      `unix:${sockets}`,
    ],
    { stdin: "ignore", stdout: Bun.file(log), stderr: Bun.file(log) },
  );
  cleanups.push(async () => {
    child.kill("SIGKILL");
    await child.exited;
    rmSync(directory, { recursive: true, force: true });
  });
  const console = () => (existsSync(log) ? readFileSync(log, "utf8") : "");
  await until("the agent listens", () => {
    if (child.exitCode !== null) throw new Error(`process 1 ended with ${child.exitCode}:\n${console()}`);
    return console().includes("info ready");
  });
  const guest = Guest.connect(`unix:${sockets}`);
  return {
    guest,
    exited: child.exited,
    console,
    signal: async (name) => {
      await guest.exec(["sh", "-c", `kill -${name} 1`]);
    },
  };
}

describe("PID 1", () => {
  test("reaps orphans, and everybody gets their own exit status meanwhile", async () => {
    const { guest } = await startContained();
    const statuses = Promise.all(
      Array.from({ length: 20 }, async (_, code) => (await guest.exec(["sh", "-c", `sleep 0.1; exit ${code}`])).code),
    );
    await guest.exec(["sh", "-c", "i=0; while [ $i -lt 300 ]; do sh -c 'sleep 0.05 &'; i=$((i+1)); done"]);
    expect(await statuses).toEqual(Array.from({ length: 20 }, (_, code) => code));
    await Bun.sleep(1_000);
    const { stdout } = await guest.exec(["sh", "-c", "grep -l '^State:.Z' /proc/[0-9]*/status || true"]);
    expect(stdout.toString()).toBe("");
  });

  test("starts a killed agent again, time after time", async () => {
    const { guest, console } = await startContained();
    const readyCount = () => console().split("info ready").length - 1;
    for (let round = 1; round <= 3; round++) {
      await guest.exec(["sh", "-c", "kill -9 $PPID"]).catch(() => {});
      await until(`the agent is back (${round})`, () => readyCount() === round + 1);
      expect((await guest.exec(["echo", "here"])).stdout.toString()).toBe("here\n");
    }
    expect(console()).toMatch(/warn service ended service=agent pid=\d+ signal=(9|SIGKILL)/);
  });

  test("hands nothing of its own environment on", async () => {
    const { guest } = await startContained();
    const { stdout } = await guest.exec(["sh", "-c", "tr '\\0' '\\n' </proc/$PPID/environ | cut -d= -f1 | sort"]);
    expect(stdout.toString().trim().split("\n")).toEqual([
      "HOME",
      "PATH",
      "SHELL",
      "USER",
      "VMAPP_BASE",
      "VMAPP_LOG_LEVEL",
      "VMAPP_UPDATES",
    ]);
  });

  test.each([
    ["SIGUSR1", "halt", 130],
    ["SIGUSR2", "power-off", 130],
    ["SIGTERM", "reboot", 129],
    ["SIGINT", "reboot", 129],
  ])("goes down on %s: %s", async (signal, action, status) => {
    const { exited, console, signal: send } = await startContained();
    await send(signal.slice(3)).catch(() => {});
    expect(await exited).toBe(status);
    expect(console()).toContain(`info going down action=${action} reason=${signal}`);
    expect(console()).toContain(`info down action=${action}`);
  });

  test("tells a session how its command ended before it takes the agent away", async () => {
    const { guest, exited, signal } = await startContained();
    const session = guest.exec(["sh", "-c", "echo $$ >/run/started; exec sleep 60"]);
    await until("the command runs", async () => (await guest.exec(["test", "-s", "/run/started"])).code === 0);
    await signal("USR2").catch(() => {});
    expect((await session).code).toBe(128 + 15);
    await exited;
  });

  test("kills what does not end by itself, and does not wait for it for long", async () => {
    const { guest, exited, console, signal } = await startContained();
    const stubborn = guest
      .exec(["sh", "-c", "trap '' TERM; echo >/run/started; while :; do sleep 0.2; done"])
      .catch(() => {});
    await until("the command runs", async () => (await guest.exec(["test", "-s", "/run/started"])).code === 0);
    await signal("USR2").catch(() => {});
    expect(await exited).toBe(130);
    await stubborn;
    expect(console()).toContain("warn processes did not end in time who=workloads");
  });

  test("gives processes no more time when it is asked a second time", async () => {
    const { guest, exited, console } = await startContained();
    const ran = guest
      .exec(["sh", "-c", "trap '' TERM; kill -USR2 1; sleep 0.1; kill -TERM 1; while :; do sleep 0.2; done"])
      .catch(() => {});
    expect(await exited).toBe(130);
    await ran;
    expect(console()).toContain("warn asked again: processes get no more time");
    expect(console()).toContain("info down action=power-off");
  });

  test("ends where it may not ask the kernel, as in a container without the right to", async () => {
    const { exited, console, signal } = await startContained({ wrapper: ["setpriv", "--bounding-set=-sys_boot"] });
    await signal("USR2").catch(() => {});
    expect(await exited).toBe(0);
    expect(console()).toContain("info down action=power-off");
  });

  test("leaves the filesystems of a machine that is not its own alone", async () => {
    const { exited, console, signal } = await startContained();
    await signal("USR2").catch(() => {});
    await exited;
    expect(console()).not.toMatch(/cannot (sync|unmount|remount|detach)/);
  });
});

describe("vmapp-init", () => {
  const run = async (...args: string[]) => {
    const child = Bun.spawn([process.execPath, main, ...args], { stdin: "ignore", stdout: "pipe", stderr: "pipe" });
    const [stdout, stderr, code] = await Promise.all([child.stdout.text(), child.stderr.text(), child.exited]);
    return { stdout, stderr, code };
  };

  test("says its version and build", async () => {
    const { stdout, code } = await run("version");
    expect(stdout).toMatch(/^vmapp-init \d+\.\d+\.\d+ \(\S+\)\n$/);
    expect(code).toBe(0);
  });

  test("lists its roles", async () => {
    const { stdout, code } = await run("--help");
    expect(stdout).toContain("agent");
    expect(code).toBe(0);
  });

  test("refuses a role that it does not have, by name", async () => {
    const { stderr, code } = await run("nosuch");
    expect(stderr).toContain('unknown role "nosuch"');
    expect(code).toBe(2);
  });

  test("refuses to be init when it is not process 1", async () => {
    const { stderr, code } = await run("init");
    expect(stderr).toContain("init is for process 1 alone");
    expect(code).toBe(2);
  });
});

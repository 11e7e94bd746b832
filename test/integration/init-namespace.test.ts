/** How PID 1 reaps, restarts and goes down: the real one, as process 1 of a PID namespace on this machine. */
import { describe, expect, test } from "bun:test";
import { resolve } from "node:path";
import { Contained } from "#test/init/contained.ts";

const main = resolve(import.meta.dir, "../../init/main.ts");

async function until(what: string, condition: () => boolean | Promise<boolean>): Promise<void> {
  const deadline = performance.now() + 10_000;
  while (!(await condition())) {
    if (performance.now() > deadline) throw new Error(`not within 10 s: ${what}`);
    await Bun.sleep(20);
  }
}

/** Sends process 1 a signal, which may end the connection. */
async function signal(machine: Contained, name: string): Promise<void> {
  await machine.guest.exec(["sh", "-c", `kill -${name} 1`]).catch(() => {});
}

describe("PID 1", () => {
  test("reaps orphans, and everybody gets their own exit status meanwhile", async () => {
    await using machine = await Contained.start();
    const { guest } = machine;
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
    await using machine = await Contained.start();
    const { guest } = machine;
    const readyCount = () => machine.console().split("info ready").length - 1;
    for (let round = 1; round <= 3; round++) {
      await guest.exec(["sh", "-c", "kill -9 $PPID"]).catch(() => {});
      await until(`the agent is back (${round})`, () => readyCount() === round + 1);
      expect((await guest.exec(["echo", "here"])).stdout.toString()).toBe("here\n");
    }
    expect(machine.console()).toMatch(/warn service ended service=agent pid=\d+ signal=(9|SIGKILL)/);
  });

  test("is ended by no signal that somebody sends it, and goes on with its work", async () => {
    await using machine = await Contained.start();
    const { guest } = machine;
    // Not those that mean something to it, nor the two that belong to glibc.
    const meaningful = [1, 2, 10, 12, 15, 32, 33];
    const numbers = Array.from({ length: 64 }, (_, index) => index + 1).filter((n) => !meaningful.includes(n));
    for (const number of numbers) {
      const { code, stdout } = await guest.exec(["sh", "-c", `kill -${number} 1 && sleep 0.05 && echo here`]);
      expect({ number, code, stdout: stdout.toString() }).toEqual({ number, code: 0, stdout: "here\n" });
    }
    await guest.exec(["sh", "-c", "kill -9 $PPID"]).catch(() => {});
    await until("the agent is back", () => machine.console().split("info ready").length === 3);
    expect((await guest.exec(["echo", "here"])).stdout.toString()).toBe("here\n");
  });

  test("starts an app again that was asked for while it was ending", async () => {
    const script = "trap 'sleep 1; echo ending; exit' TERM; echo up; while :; do sleep 0.1; done";
    await using machine = await Contained.start({ app: { argv: ["sh", "-c", script], data: "/run/data" } });
    await machine.says("app: up");
    const wish = "echo $0 >/run/vmapp/app-wish && kill -HUP 1 && while [ -e /run/vmapp/app-wish ]; do sleep 0.01; done";
    for (const what of ["stopped", "running"]) await machine.guest.exec(["sh", "-c", wish, what]);
    expect(machine.console()).not.toContain("app: ending");
    await until("the app is back", () => machine.console().split("app: up").length === 3);
    expect((await machine.guest.exec(["echo", "here"])).stdout.toString()).toBe("here\n");
  });

  test("hands nothing of its own environment on", async () => {
    await using machine = await Contained.start();
    const { guest } = machine;
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
  ])("goes down on %s: %s", async (name, action, status) => {
    await using machine = await Contained.start();
    await signal(machine, name.slice(3));
    expect(await machine.exited).toBe(status);
    expect(machine.console()).toContain(`info going down action=${action} reason=${name}`);
    expect(machine.console()).toContain(`info down action=${action}`);
  });

  test("tells a session how its command ended before it takes the agent away", async () => {
    await using machine = await Contained.start();
    const { guest } = machine;
    const session = guest.exec(["sh", "-c", "echo $$ >/run/started; exec sleep 60"]);
    await until("the command runs", async () => (await guest.exec(["test", "-s", "/run/started"])).code === 0);
    await signal(machine, "USR2");
    expect((await session).code).toBe(128 + 15);
    await machine.exited;
  });

  test("kills what does not end by itself, and does not wait for it for long", async () => {
    await using machine = await Contained.start();
    const { guest } = machine;
    const stubborn = guest
      .exec(["sh", "-c", "trap '' TERM; echo >/run/started; while :; do sleep 0.2; done"])
      .catch(() => {});
    await until("the command runs", async () => (await guest.exec(["test", "-s", "/run/started"])).code === 0);
    await signal(machine, "USR2");
    expect(await machine.exited).toBe(130);
    await stubborn;
    expect(machine.console()).toContain("warn processes did not end in time who=workloads");
  });

  test("gives processes no more time when it is asked a second time", async () => {
    await using machine = await Contained.start();
    const ran = machine.guest
      .exec(["sh", "-c", "trap '' TERM; kill -USR2 1; sleep 0.1; kill -TERM 1; while :; do sleep 0.2; done"])
      .catch(() => {});
    expect(await machine.exited).toBe(130);
    await ran;
    expect(machine.console()).toContain("warn asked again: processes get no more time");
    expect(machine.console()).toContain("info down action=power-off");
  });

  test("ends where it may not ask the kernel, as in a container without the right to", async () => {
    await using machine = await Contained.start({ wrapper: ["setpriv", "--bounding-set=-sys_boot"] });
    await signal(machine, "USR2");
    expect(await machine.exited).toBe(0);
    expect(machine.console()).toContain("info down action=power-off");
  });

  test("leaves the filesystems of a machine that is not its own alone", async () => {
    await using machine = await Contained.start();
    await signal(machine, "USR2");
    await machine.exited;
    expect(machine.console()).not.toMatch(/cannot (sync|unmount|remount|detach)/);
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

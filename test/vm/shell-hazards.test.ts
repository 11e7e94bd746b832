/** The table of hazards, where it touches the shell, in a guest over vsock. Counts are those of an emulated machine. */
import { beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { ShellError } from "#host/clients/shell/error.ts";
import type { Guest } from "#host/guest.ts";
import {
  backgroundChildEnds,
  firstSizeIsRight,
  killLeavesNothing,
  largeInputArrives,
  largeOutputArrives,
  slowPeersDoNotStopOthers,
  tailIsThere,
} from "#test/shell/hazards.ts";
import { bootTimeoutMs, sharedGuest } from "./fixture.ts";

setDefaultTimeout(600_000);

const full = process.env.VMAPP_FULL === "1";
const mib = 2 ** 20;
let guest: Guest;

beforeAll(async () => {
  guest = await sharedGuest();
}, bootTimeoutMs);

/** private memory of the guest's agent, in bytes */
async function agentMemory(): Promise<number> {
  const script = `for p in /proc/[0-9]*; do
    [ "$(readlink $p/exe)" = /opt/vmapp/bin/vmapp-init ] && grep -q agent $p/cmdline &&
      awk '/^Private/ { n += $2 } END { print n }' $p/smaps_rollup
  done; true`;
  const { stdout } = await guest.exec(["sh", "-c", script]);
  const kib = Number(stdout.toString().trim());
  expect(kib).toBeGreaterThan(0);
  return kib * 1024;
}

describe.each([false, true])("in a guest, tty %p", (tty) => {
  const place = () => ({ guest, tty });

  test.each(full ? [65_535, 65_536, 65_537, mib, 64 * mib] : [65_535, 65_536, 65_537, mib])(
    "hazard 1: an input of %d bytes arrives whole",
    async (bytes) => {
      await largeInputArrives(place(), bytes);
    },
  );

  test("hazard 2: a background child does not keep the session", async () => {
    // An emulated machine takes about as long to start the shell as the contract gives the drain.
    await backgroundChildEnds(place(), 3_000);
  });

  test(`hazard 3: ${full ? 500 : 10} times, the tail of 300 kB is there and the exit comes last`, async () => {
    await tailIsThere(place(), full ? 500 : 10);
  });

  const outputMib = full ? 1024 : tty ? 2 : 8;
  test(`hazard 4: an output of ${outputMib} MiB arrives whole while another session answers`, async () => {
    await largeOutputArrives(place(), outputMib * mib, 10_000);
  });

  test("hazard 5: slow peers cost the others little and the agent under 32 MB", async () => {
    const before = await agentMemory();
    let during: Promise<number> | undefined;
    const { idle, loaded } = await slowPeersDoNotStopOthers(place(), full ? 200 : 15, () => {
      during = agentMemory();
    });
    const grown = ((await during) ?? Number.NaN) - before;
    console.log(
      `hazard 5 in a guest (tty ${tty}): median of true ${idle.medianMs.toFixed(0)} ms idle, ${loaded.medianMs.toFixed(0)} ms beside ` +
        `slow peers; the agent grew by ${(grown / mib).toFixed(1)} MiB`,
    );
    expect(grown).toBeLessThan(32e6);
    // Of a few runs on an emulated processor the slowest says more about the host than about the agent.
    if (full) expect(loaded.p99Ms).toBeLessThan(idle.p99Ms + 100);
    else expect(loaded.medianMs).toBeLessThan(idle.medianMs + 100);
  });

  test("hazard 7: a killed or timed-out command leaves nothing of its group", async () => {
    await killLeavesNothing(place(), 500);
  });
});

test("hazard 8: in a guest, the first command on a pty sees the size asked for", async () => {
  await firstSizeIsRight(guest, full ? 50 : 5);
});

test("hazard 13: a command killed for memory ends with 137, and agent and PID 1 go on", async () => {
  const agentPids = () => guest.exec(["pidof", "vmapp-init"]).then(({ stdout }) => stdout.toString());
  const before = await agentPids();
  // A buffer that fits into the guest's memory but not into what is free of it, filled at once.
  const greedy = `exec dd if=/dev/zero of=/dev/null count=1 bs=$(awk '/MemTotal/ { print $2 - 4096 }' /proc/meminfo)k`;
  const { code } = await guest.exec(["sh", "-c", greedy]);
  expect(code).toBe(137);
  expect(await agentPids()).toBe(before);
});

describe("the contract in a guest", () => {
  test("the environment is exactly the given one, as root in /root", async () => {
    const { stdout } = await guest.exec(["env"]);
    expect(stdout.toString().trim().split("\n").sort()).toEqual([
      "HOME=/root",
      "PATH=/usr/sbin:/usr/bin:/sbin:/bin",
      "SHELL=/bin/sh",
      "TERM=xterm-256color",
      "USER=root",
    ]);
    expect((await guest.exec(["sh", "-c", "pwd; id -u"])).stdout.toString()).toBe("/root\n0\n");
  });

  test("exit codes are the command's, 128 + n and 127", async () => {
    expect((await guest.exec(["sh", "-c", "exit 7"])).code).toBe(7);
    expect(await guest.exec(["sh", "-c", "kill -9 $$"])).toMatchObject({ code: 137, signal: "SIGKILL" });
    const missing = await guest.exec(["no-such-command"]);
    expect([missing.code, missing.stderr.toString()]).toEqual([127, "no-such-command: command not found\n"]);
  });

  test("a refusal names the command and the reason, and the next command runs", async () => {
    const error = await guest.exec(["/etc"]).catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(ShellError);
    expect((error as ShellError).message).toBe("cannot run /etc: is a directory");
    expect((await guest.exec(["true"])).code).toBe(0);
  });

  test("a command may run as another user, somewhere else, with more in its environment", async () => {
    const options = { user: "65534:65534", cwd: "/tmp", env: { A: "b" } };
    const { stdout } = await guest.exec(["sh", "-c", "id -u; id -g; pwd; echo $A"], options);
    expect(stdout.toString()).toBe("65534\n65534\n/tmp\nb\n");
  });

  test.each([
    ["that is silent", "sleep 301"],
    ["that floods it", "yes"],
  ])("a client that goes away takes its command with it, one %s", async (_name, command) => {
    const session = await guest.shell({ argv: ["sh", "-c", `echo $$; exec ${command}`] });
    session.exit.catch(() => {});
    const pid = await new Promise<string>((resolve) =>
      session.stdout.once("data", (line) => resolve(String(Number.parseInt(String(line), 10)))),
    );
    session.stdout.pause();
    await Bun.sleep(1_000);
    session.disconnect();
    const deadline = performance.now() + 10_000;
    while ((await guest.exec(["test", "-e", `/proc/${pid}`])).code === 0) {
      if (performance.now() > deadline) throw new Error(`the command ${pid} is still there`);
      await Bun.sleep(100);
    }
  });
});

test("after all of it no zombie is left and the guest answers", async () => {
  const { stdout } = await guest.exec(["sh", "-c", "cat /proc/[0-9]*/stat 2>/dev/null | grep -c ') Z ' || true"]);
  expect(stdout.toString().trim()).toBe("0");
});

/** Hazard 17 in a guest: a command in the instant after the port opens. The agent is killed, and starts again, for that. */
import { beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import type { Guest } from "#host/guest.ts";
import type { Vm } from "#host/vm/vm.ts";
import { ports } from "#protocol/ports.ts";
import { bootTimeoutMs, startTestVm } from "./fixture.ts";

setDefaultTimeout(600_000);

const rounds = process.env.VMAPP_FULL === "1" ? 20 : 3;
const killAgent = `for p in /proc/[0-9]*; do
  [ "$(readlink $p/exe)" = /opt/vmapp/bin/vmapp-init ] && grep -q agent $p/cmdline && kill -9 \${p#/proc/}
done`;
let vm: Vm;
let guest: Guest;

beforeAll(async () => {
  vm = await startTestVm({ name: "restart" });
  guest = vm.guest;
}, bootTimeoutMs);

/** Waits until PID 1 has seen the agent's end so often: a dying agent's port may still take a connection. */
async function untilAgentEnded(times: number): Promise<void> {
  const ends = () => vm.consoleTail(1_000).filter((line) => line.includes("service ended service=agent")).length;
  for (const deadline = performance.now() + 60_000; ends() < times; await Bun.sleep(5)) {
    if (performance.now() > deadline) throw new Error(`the agent did not end ${times} times`);
  }
}

/** Dials until the port accepts. */
async function whenItAccepts(): Promise<void> {
  for (const deadline = performance.now() + 60_000; ; ) {
    try {
      (await guest.dial(ports.shell, { timeoutMs: 5_000 })).socket.destroy();
      return;
    } catch (error) {
      if (performance.now() > deadline) throw error;
      await Bun.sleep(5);
    }
  }
}

test(`hazard 17: in a guest, dial and exec as soon as the port accepts, after ${rounds} starts of the agent`, async () => {
  for (let round = 0; round < rounds; round += 1) {
    const killed = await guest.exec(["sh", "-c", killAgent]).catch((error: Error) => error);
    // The agent that ran the command is gone, so no exit status can have come.
    expect(killed).toBeInstanceOf(Error);
    await untilAgentEnded(round + 1);
    await whenItAccepts();
    const { code, stdout } = await guest.exec(["echo", `round ${round}`]);
    expect([code, stdout.toString()]).toEqual([0, `round ${round}\n`]);
    // Supervision starts a program at once again that had lasted a while.
    await Bun.sleep(1_500);
  }
});

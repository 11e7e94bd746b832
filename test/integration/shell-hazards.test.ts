/** The table of hazards, where it touches the shell, against a real agent on Unix sockets. */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { readFileSync, writeFileSync } from "node:fs";
import { Guest } from "#host/guest.ts";
import { type LocalAgent, startLocalAgent } from "#test/shell/agent.ts";
import {
  backgroundChildEnds,
  firstSizeIsRight,
  killLeavesNothing,
  largeInputArrives,
  largeOutputArrives,
  slowPeersDoNotStopOthers,
  tailIsThere,
} from "#test/shell/hazards.ts";
import { childrenOf, eventually, residentBytes } from "#test/shell/processes.ts";

setDefaultTimeout(120_000);

let agent: LocalAgent;
let guest: Guest;

beforeAll(async () => {
  agent = await startLocalAgent();
  guest = Guest.connect(agent.target);
});

afterAll(() => agent.stop());

describe.each([false, true])("tty %p", (tty) => {
  const place = () => ({ guest, tty });

  test.each([65_535, 65_536, 65_537, 2 ** 20, 64 * 2 ** 20])(
    "hazard 1: an input of %d bytes arrives whole",
    async (bytes) => {
      await largeInputArrives(place(), bytes);
    },
  );

  test("hazard 2: a background child does not keep the session", async () => {
    await backgroundChildEnds(place(), 1_000);
  });

  test("hazard 3: 500 times, the tail of 300 kB is there and the exit comes last", async () => {
    await tailIsThere(place(), 500);
  });

  const largeMib = tty && process.env.VMAPP_FULL !== "1" ? 256 : 1024;
  test(`hazard 4: an output of ${largeMib} MiB arrives whole while another session answers`, async () => {
    await largeOutputArrives(place(), largeMib * 2 ** 20, 5_000);
  });

  test("hazard 5: slow peers cost the others under 100 ms and the agent under 32 MB", async () => {
    const before = residentBytes(agent.pid);
    let grown = 0;
    const { idle, loaded } = await slowPeersDoNotStopOthers(place(), 150, () => {
      grown = residentBytes(agent.pid) - before;
    });
    console.log(
      `hazard 5 (tty ${tty}): p99 of true ${idle.p99Ms.toFixed(1)} ms idle, ${loaded.p99Ms.toFixed(1)} ms beside slow peers; ` +
        `the agent grew by ${(grown / 2 ** 20).toFixed(1)} MiB`,
    );
    expect(loaded.p99Ms).toBeLessThan(idle.p99Ms + 100);
    expect(grown).toBeLessThan(32e6);
  });

  test("hazard 7: a killed or timed-out command leaves nothing of its group", async () => {
    await killLeavesNothing(place(), 500);
  });
});

test("hazard 8: the first command on a pty sees the size asked for", async () => {
  await firstSizeIsRight(guest, 50);
});

test("after all of it the agent answers and has no children", async () => {
  expect((await guest.exec(["echo", "alive"])).stdout.toString()).toBe("alive\n");
  await eventually("no children", () => childrenOf(agent.pid).length === 0);
});

test("hazard 17: dial and exec as soon as the port accepts, for 200 starts of the agent", async () => {
  const rounds = 200;
  let failed: unknown;
  const one = async () => {
    const fresh = await startLocalAgent({ waitForReady: false });
    try {
      const result = await execAsSoonAsItAccepts(Guest.connect(fresh.target));
      expect(result).toBe("first\n");
    } catch (error) {
      failed ??= error;
    } finally {
      await fresh.stop();
    }
  };
  for (let done = 0; done < rounds && failed === undefined; done += 2) await Promise.all([one(), one()]);
  if (failed !== undefined) throw failed;
});

test("hazard 13: nothing that a command starts has the agent's OOM score, however early it is started", async () => {
  await using scored = await startLocalAgent();
  writeFileSync(`/proc/${scored.pid}/oom_score_adj`, "500");
  const place = Guest.connect(scored.target);
  for (let round = 0; round < 100; round += 1)
    expect((await place.exec(["sh", "-c", "cat /proc/self/oom_score_adj"])).stdout.toString()).toBe("0\n");
  expect(readFileSync(`/proc/${scored.pid}/oom_score_adj`, "latin1")).toBe("500\n");
});

async function execAsSoonAsItAccepts(fresh: Guest): Promise<string> {
  for (const deadline = performance.now() + 20_000; ; ) {
    let connection: Awaited<ReturnType<Guest["dial"]>>;
    try {
      connection = await fresh.dial(1027);
    } catch (error) {
      if (performance.now() > deadline) throw error;
      await Bun.sleep(1);
      continue;
    }
    connection.socket.destroy();
    return (await fresh.exec(["echo", "first"])).stdout.toString();
  }
}

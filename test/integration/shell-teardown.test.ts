/** "Signals" and "Exit and teardown", against a real agent. */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import type { ShellStart } from "#protocol/shell/start.ts";
import { type LocalAgent, startLocalAgent } from "#test/shell/agent.ts";
import { childrenOf, eventually, groupMembers, isAlive, statOf, zombiesOf } from "#test/shell/processes.ts";
import { RawClient } from "#test/shell/raw-client.ts";

setDefaultTimeout(30_000);

let agent: LocalAgent;

beforeAll(async () => {
  agent = await startLocalAgent();
});

afterAll(() => agent.stop());

const open = async (start: ShellStart) => (await RawClient.start(agent.directory, start)).started();
const script = (text: string, tty = false) => open({ argv: ["sh", "-c", text], tty });

async function stillAnswers(): Promise<void> {
  const client = await RawClient.start(agent.directory, { argv: ["echo", "alive"] });
  expect(await client.exit()).toBe(0);
}

/** the numbers that a command printed on its first lines, once there are `count` of them */
async function pids(client: RawClient, count: number): Promise<number[]> {
  const found = () => [...client.stdout.toString().matchAll(/^(\d+)\r?$/gm)].map(([, digits]) => Number(digits));
  await client.until(() => found().length >= count);
  return found();
}

describe("signals", () => {
  test.each([
    [1, 129],
    [2, 130],
    [15, 143],
  ])("signal %d kills the command, whose exit is %d", async (number, code) => {
    for (const tty of [false, true]) {
      const client = await open({ argv: ["sleep", "60"], tty });
      client.send({ type: "signal", number });
      expect(await client.exit()).toBe(code);
    }
  });

  test.each([false, true])("reaches the children of a shell, because it goes to the group (tty %p)", async (tty) => {
    const client = await script("echo $$; sleep 60 & echo $!; wait", tty);
    const [shell = 0, child = 0] = await pids(client, 2);
    client.send({ type: "signal", number: 15 });
    expect(await client.exit()).toBe(143);
    await eventually("the child to be gone", () => !isAlive(child) && groupMembers(shell).length === 0, 1_000);
  });

  test("reaches a command that was started this very moment", async () => {
    for (let round = 0; round < 60; round += 1) {
      const client = await RawClient.start(agent.directory, { argv: ["sleep", "60"], tty: round % 3 > 0 });
      client.send({ type: "signal", number: 15 });
      expect(await client.exit()).toBe(143);
    }
  });

  test("every other number is ignored", async () => {
    const numbers = Array.from({ length: 256 }, (_, number) => number).filter((number) => ![1, 2, 15].includes(number));
    for (const tty of [false, true]) {
      const client = await script("echo $$; read line; echo survived $line", tty);
      const [pid = 0] = await pids(client, 1);
      for (const number of numbers) client.send({ type: "signal", number });
      client.stdin("well\n");
      expect(await client.exit()).toBe(0);
      expect(client.stdout.toString()).toContain("survived well");
      expect(isAlive(pid)).toBe(false);
    }
  });

  test("a payload that is not exactly one byte is ignored", async () => {
    const client = await script("echo $$; read line; echo survived");
    await pids(client, 1);
    for (const payload of [[], [15, 0], [0, 0, 0, 15], [2, 2]]) client.sendRaw(5, Uint8Array.from(payload));
    client.stdin("go\n");
    expect(await client.exit()).toBe(0);
  });

  test("a command may catch it and decide for itself", async () => {
    const client = await script("trap 'echo caught; exit 7' TERM; echo ready; while :; do sleep 0.05; done");
    await client.output("ready");
    client.send({ type: "signal", number: 15 });
    expect(await client.exit()).toBe(7);
    expect(client.stdout.toString()).toContain("caught");
  });

  test("after the command's exit they do no harm", async () => {
    const client = await script("sleep 30 & echo $!");
    const [child = 0] = await pids(client, 1);
    client.send({ type: "signal", number: 15 });
    await client.exit();
    client.vanish();
    await eventually("the child to be gone", () => !isAlive(child), 3_000).catch(() => process.kill(child, "SIGKILL"));
    await stillAnswers();
  });

  test("^C and ^\\ travel as input and the terminal turns them into signals", async () => {
    for (const [key, code] of [
      ["\x03", 130],
      ["\x1c", 131],
    ] as const) {
      const client = await script("echo ready; exec sleep 60", true);
      await client.output("ready");
      client.stdin(key);
      expect(await client.exit()).toBe(code);
    }
  });
});

describe("resize", () => {
  test("on a pty sets the window's size and raises SIGWINCH", async () => {
    const client = await script("trap 'stty size; exit 0' WINCH; echo ready; while :; do sleep 0.05; done", true);
    await client.output("ready");
    client.send({ type: "resize", rows: 43, cols: 132 });
    expect(await client.exit()).toBe(0);
    expect(client.stdout.toString()).toContain("43 132");
  });

  test("on a pty the last of many is the one that stays", async () => {
    const client = await script("echo ready; read line; stty size", true);
    await client.output("ready");
    for (let index = 1; index <= 500; index += 1) client.send({ type: "resize", rows: index, cols: 1000 + index });
    client.stdin("go\n");
    expect(await client.exit()).toBe(0);
    expect(client.stdout.toString()).toContain("500 1500");
  });

  test("on pipes is ignored", async () => {
    const client = await script("trap 'echo winch' WINCH; read line; echo $line");
    client.send({ type: "resize", rows: 43, cols: 132 });
    client.stdin("quiet\n");
    expect(await client.exit()).toBe(0);
    expect(client.stdout.toString()).toBe("quiet\n");
  });
});

describe("exit codes", () => {
  test.each([0, 1, 7, 126, 127, 128, 200, 255])("exit %d is exit %d", async (code) => {
    for (const tty of [false, true]) expect(await (await script(`exit ${code}`, tty)).exit()).toBe(code);
  });

  test.each([1, 2, 3, 6, 9, 11, 13, 15])("killed by signal %d is 128 + n", async (number) => {
    for (const tty of [false, true]) {
      const client = await script(`ulimit -c 0; kill -${number} $$; sleep 5`, tty);
      expect(await client.exit()).toBe(128 + number);
    }
  });

  test("many at once get each their own", async () => {
    const clients = await Promise.all(
      Array.from({ length: 60 }, (_, index) => script(`exit ${index}`, index % 3 === 0)),
    );
    expect(await Promise.all(clients.map((client) => client.exit()))).toEqual(clients.map((_, index) => index));
  });
});

describe("draining", () => {
  test.each([false, true])(
    "a background child does not keep the session: it ends within about 200 ms (tty %p)",
    async (tty) => {
      for (const text of ["echo hi; sleep 30 & echo $!", "echo hi; setsid sleep 30 & echo $!"]) {
        const client = await script(text, tty);
        const started = performance.now();
        expect(await client.exit()).toBe(0);
        expect(performance.now() - started).toBeLessThan(1_000);
        expect(client.stdout.toString()).toStartWith("hi");
        const [child = 0] = await pids(client, 1).catch(() => [0]);
        if (child > 0 && isAlive(child)) process.kill(child, "SIGKILL");
      }
    },
  );

  test("output of a background child within the drain still arrives, later output does not", async () => {
    // It writes as soon as the command has exited and been waited for.
    const background = "while kill -0 $$ 2>/dev/null; do :; done; echo soon; sleep 1; echo late";
    const client = await script(`(${background}) & echo first`);
    expect(await client.exit()).toBe(0);
    expect(client.stdout.toString()).toBe("first\nsoon\n");
  });

  test("a background child on a pipe whose session ended gets SIGPIPE, not a hang", async () => {
    const client = await script("trap '' HUP; (sleep 0.6; while echo x; do sleep 0.02; done) 2>/dev/null & echo $!");
    const [child = 0] = await pids(client, 1);
    await client.exit();
    await eventually("the writer to be gone", () => !isAlive(child), 5_000);
  });

  test.each([false, true])(
    "a slow client is no reason to cut: all of 1.5 MB arrives before the exit (tty %p)",
    async (tty) => {
      const text = `${tty ? "stty raw; " : ""}head -c 1500000 /dev/zero; exit 5`;
      const client = await script(text, tty);
      client.socket.pause();
      await Bun.sleep(1_500);
      client.socket.resume();
      expect(await client.exit()).toBe(5);
      expect(client.stdout.length).toBe(1_500_000);
    },
  );

  test("a slow client loses nothing of a command that exited long ago", async () => {
    const client = await script("head -c 200000 /dev/zero; exit 5");
    client.socket.pause();
    await Bun.sleep(1_000);
    client.socket.resume();
    expect(await client.exit()).toBe(5);
    expect(client.stdout.length).toBe(200_000);
  });

  test.each([false, true])("a background flood does not keep the session either (tty %p)", async (tty) => {
    const client = await script("setsid sh -c 'echo $$; exec cat /dev/zero' & sleep 0.3; exit 6", tty);
    expect(await client.exit(5_000)).toBe(6);
    const pid = Number(/(\d+)/.exec(client.stdout.subarray(0, 20).toString())?.[1]);
    await eventually("the flood to be gone", () => !isAlive(pid), 5_000);
  });
});

describe("client disconnect", () => {
  test.each([false, true])("SIGHUP reaches the group, and what obeys it is gone at once (tty %p)", async (tty) => {
    const client = await script("echo $$; sleep 60 & echo $!; wait", tty);
    const [shell = 0, child = 0] = await pids(client, 2);
    const started = performance.now();
    client.vanish();
    await eventually("shell and child to be gone", () => !isAlive(shell) && !isAlive(child), 1_500);
    expect(performance.now() - started).toBeLessThan(1_500);
  });

  test.each([false, true])("what ignores SIGHUP is killed after 2 s, and not sooner (tty %p)", async (tty) => {
    const client = await script("trap '' HUP; echo $$; sleep 60 & echo $!; wait", tty);
    const [shell = 0, child = 0] = await pids(client, 2);
    const started = performance.now();
    client.vanish();
    await Bun.sleep(1_500);
    expect([isAlive(shell), isAlive(child)]).toEqual([true, true]);
    await eventually("the group to be gone", () => groupMembers(shell).length === 0, 5_000);
    const tookMs = performance.now() - started;
    expect(tookMs).toBeGreaterThan(1_900);
    expect(tookMs).toBeLessThan(3_500);
    await eventually("no zombie", () => zombiesOf(agent.pid).length === 0);
  });

  test("in the moment that the command starts leaves none behind, whatever it makes of SIGHUP", async () => {
    for (let round = 0; round < 40; round += 1) {
      const argv = round % 2 === 0 ? ["sleep", "61.5"] : ["nohup", "sleep", "61.5"];
      const client = await RawClient.start(agent.directory, { argv, tty: round % 4 < 2 });
      if (round % 3 > 0) await client.started();
      client.vanish();
    }
    await eventually("no children", () => childrenOf(agent.pid).length === 0, 10_000);
  });

  test("a command may use the grace to tidy up", async () => {
    const marker = `/tmp/vmapp-grace-${process.pid}-${Date.now()}`;
    const client = await script(
      `trap 'sleep 0.5; echo tidy > ${marker}; exit' HUP; echo $$; while :; do sleep 0.05; done`,
    );
    const [pid = 0] = await pids(client, 1);
    client.vanish();
    await eventually("the command to be gone", () => !isAlive(pid), 5_000);
    expect(await Bun.file(marker).text()).toBe("tidy\n");
    await Bun.file(marker).delete();
  });

  test("a half-closed connection is a disconnect too", async () => {
    const client = await script("echo $$; exec sleep 60");
    const [pid = 0] = await pids(client, 1);
    client.socket.end();
    await eventually("the command to be gone", () => !isAlive(pid), 1_500);
    client.vanish();
  });

  test.each([
    ["a frame over 1 MiB", [2, 0x00, 0x10, 0x00, 0x01]],
    ["garbage that reads as a huge frame", [0x47, 0x45, 0x54, 0x20, 0x2f]],
  ])("%s is a disconnect", async (_name, bytes) => {
    for (const tty of [false, true]) {
      const client = await script("trap 'exit 1' HUP; echo $$; while :; do sleep 0.05; done", tty);
      const [pid = 0] = await pids(client, 1);
      client.sendBytes(Uint8Array.from(bytes));
      await client.end();
      expect(client.frames.some(({ type }) => type === "exit" || type === "error")).toBe(false);
      await eventually("the command to be gone", () => !isAlive(pid), 3_000);
    }
    await stillAnswers();
  });

  test("a client that dies in the middle of a frame is a disconnect", async () => {
    const client = await script("echo $$; exec sleep 60");
    const [pid = 0] = await pids(client, 1);
    client.sendBytes(Uint8Array.of(2, 0, 0, 4, 0, 1, 2, 3));
    await Bun.sleep(50);
    client.vanish();
    await eventually("the command to be gone", () => !isAlive(pid), 1_500);
  });

  test.each([false, true])("while the output floods is noticed (tty %p)", async (tty) => {
    const client = await script("echo $$; exec cat /dev/zero", tty);
    const [pid = 0] = await pids(client, 1);
    client.socket.pause();
    await Bun.sleep(200);
    client.vanish();
    await eventually("the flood to be gone", () => !isAlive(pid), 3_000);
    await stillAnswers();
  });

  test("what left the group is not hunted, but its pipe is closed", async () => {
    const client = await script(
      "setsid sh -c 'echo $$; trap \"\" PIPE; sleep 0.5; echo x 2>/dev/null || exit 3; sleep 60' & wait",
    );
    const [pid = 0] = await pids(client, 1);
    client.vanish();
    await Bun.sleep(200);
    expect(isAlive(pid)).toBe(true);
    await eventually("the writer to have met its closed pipe", () => !isAlive(pid), 5_000);
  });

  test("on a pty, the terminal is gone for whoever still holds it", async () => {
    const client = await script("setsid sh -c 'echo $$; sleep 0.5; cat; exit' & wait", true);
    const [pid = 0] = await pids(client, 1);
    client.vanish();
    await eventually("the reader of the terminal to have met its end", () => !isAlive(pid), 5_000);
  });
});

test("nothing of all these sessions is left: no child, no zombie", async () => {
  await eventually("no children", () => childrenOf(agent.pid).length === 0);
  await eventually("no zombies", () => zombiesOf(agent.pid).length === 0);
  expect(statOf(agent.pid)?.state).toMatch(/[SR]/);
});

/** Hundreds of sessions at once, and what is left of them. */
import { expect, setDefaultTimeout, test } from "bun:test";
import { startLocalAgent } from "#test/shell/agent.ts";
import { childrenOf, descriptorsOf, eventually, privateBytes, ptyMasters, zombiesOf } from "#test/shell/processes.ts";
import { RawClient } from "#test/shell/raw-client.ts";

setDefaultTimeout(120_000);

const count = 500;
const window = 262_144;

test(`${count} sessions at once echo each their own input, and nothing of them is left`, async () => {
  await using agent = await startLocalAgent();
  const warm = await RawClient.start(agent.directory, { argv: ["cat"], tty: true });
  await warm.started();
  warm.vanish();
  await eventually("the warm-up to be gone", () => childrenOf(agent.pid).length === 0 && ptyMasters(agent.pid) === 0);
  const descriptorsBefore = descriptorsOf(agent.pid).length;
  const memoryBefore = privateBytes(agent.pid);

  // Every second one on a pty, whose own echo is off so that what comes back is the command's.
  const clients = await Promise.all(
    Array.from({ length: count }, (_, index) =>
      index % 2 === 0
        ? RawClient.start(agent.directory, { argv: ["cat"], flow: true })
        : RawClient.start(agent.directory, {
            argv: ["sh", "-c", "stty raw -echo; echo; exec cat"],
            tty: true,
            flow: true,
          }),
    ),
  );
  await Promise.all(clients.map((client, index) => (index % 2 === 0 ? client.started() : client.output("\n"))));
  expect(childrenOf(agent.pid)).toHaveLength(count);
  expect(ptyMasters(agent.pid)).toBeGreaterThanOrEqual(count / 2);
  Bun.gc(true);
  await Bun.sleep(500);
  const perSession = (privateBytes(agent.pid) - memoryBefore) / count;
  console.log(`agent memory per idle session, ${count} at once: ${(perSession / 1024).toFixed(1)} KiB`);
  expect(perSession).toBeLessThan(256 * 1024);

  for (let round = 0; round < 3; round += 1) {
    await Promise.all(
      clients.map(async (client, index) => {
        const line = `round ${round} of session ${index};`;
        client.stdin(line);
        await client.output(line, 60_000);
      }),
    );
  }
  for (const [index, client] of clients.entries()) {
    const own = [0, 1, 2].map((round) => `round ${round} of session ${index};`).join("");
    expect(client.stdout.toString().trim()).toBe(own);
    expect(client.granted - window).toBe(own.length);
  }

  // Each way for a session to end: its input's end, a signal, and a client that goes without a word.
  for (const [index, client] of clients.entries()) {
    if (index % 2 === 0 && index % 3 === 0) client.send({ type: "stdinEof" });
    else if (index % 3 === 1) client.send({ type: "signal", number: 15 });
    else client.vanish();
  }
  await Promise.all(
    clients.map(async (client, index) => {
      if (index % 2 === 0 && index % 3 === 0) expect(await client.exit(60_000)).toBe(0);
      else if (index % 3 === 1) expect(await client.exit(60_000)).toBe(143);
    }),
  );

  await eventually("no process", () => childrenOf(agent.pid).length === 0, 20_000);
  await eventually("no zombie", () => zombiesOf(agent.pid).length === 0, 20_000);
  await eventually("no pty", () => ptyMasters(agent.pid) === 0, 20_000);
  await eventually("the descriptors of before", () => descriptorsOf(agent.pid).length <= descriptorsBefore, 20_000);
  const last = await RawClient.start(agent.directory, { argv: ["echo", "alive"] });
  expect(await last.exit()).toBe(0);
});

test("1 200 sessions one after the other leave the agent no larger", async () => {
  await using agent = await startLocalAgent();
  const run = async (rounds: number) => {
    for (let done = 0; done < rounds; done += 20)
      await Promise.all(
        Array.from({ length: 20 }, async (_, index) => {
          const client = await RawClient.start(agent.directory, { argv: ["true"], tty: index % 2 === 0, flow: true });
          expect(await client.exit()).toBe(0);
        }),
      );
  };
  await run(600);
  const descriptors = descriptorsOf(agent.pid).length;
  const memory = privateBytes(agent.pid);
  await run(600);
  await eventually("the descriptors of before", () => descriptorsOf(agent.pid).length <= descriptors);
  expect(privateBytes(agent.pid) - memory).toBeLessThan(16 * 2 ** 20);
  expect(zombiesOf(agent.pid)).toEqual([]);
});

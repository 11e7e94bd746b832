/** A live agent against damaged connections: it goes on serving, and nothing of them is left. */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { createConnection, type Socket } from "node:net";
import { join } from "node:path";
import { encodeFrame } from "#protocol/shell/frames.ts";
import { encodeStart } from "#protocol/shell/start.ts";
import { type LocalAgent, startLocalAgent } from "#test/shell/agent.ts";
import { chooseSeed, damage, pieces, Random } from "#test/shell/mutations.ts";
import { childrenOf, descriptorsOf, eventually, privateBytes, zombiesOf } from "#test/shell/processes.ts";
import { RawClient } from "#test/shell/raw-client.ts";

setDefaultTimeout(600_000);

const seed = chooseSeed();
const connections = process.env.VMAPP_FULL === "1" ? 20_000 : 1_000;
const atOnce = 20;
let agent: LocalAgent;

beforeAll(async () => {
  agent = await startLocalAgent();
});

afterAll(() => agent.stop());

const start = (tty: boolean) =>
  // A command that ends by itself whatever reaches it, and that no damage turns into one that does harm.
  encodeFrame({
    type: "start",
    payload: encodeStart({ argv: ["sleep", "0.05"], tty, flow: true, rows: 24, cols: 80 }),
  });
const rest = Buffer.concat([
  encodeFrame({ type: "stdin", bytes: Buffer.from("input") }),
  encodeFrame({ type: "resize", rows: 1, cols: 2 }),
  encodeFrame({ type: "signal", number: 1 }),
  encodeFrame({ type: "stdinEof" }),
]);

/** One damaged connection: the start frame's header and JSON half of the time, the frames behind it otherwise. */
async function disturb(random: Random): Promise<void> {
  const first = start(random.below(2) === 0);
  const stream =
    random.below(2) === 0
      ? Buffer.concat([first, damage(rest, random)])
      : Buffer.concat([damage(first.subarray(0, 12), random), first.subarray(12), rest]);
  const socket = await connect();
  socket.resume();
  for (const piece of pieces(stream, random)) socket.write(piece);
  switch (random.below(3)) {
    case 0:
      socket.destroy();
      break;
    case 1:
      socket.end();
      break;
    default:
      await Promise.race([new Promise((resolve) => socket.once("close", resolve)), Bun.sleep(random.below(100))]);
      socket.destroy();
  }
}

function connect(): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = createConnection({ path: join(agent.directory, "1027.sock"), allowHalfOpen: true });
    socket.once("error", reject);
    socket.once("connect", () => {
      socket.off("error", reject);
      socket.on("error", () => socket.destroy());
      resolve(socket);
    });
  });
}

test(`${connections} damaged connections, and a right one answers all along`, async () => {
  const random = new Random(seed);
  const ok = async () => {
    const client = await RawClient.start(agent.directory, { argv: ["echo", "alive"], flow: true });
    if ((await client.exit()) !== 0 || client.stdout.toString() !== "alive\n")
      throw new Error("a right session failed");
  };
  await ok();
  const descriptors = descriptorsOf(agent.pid).length;
  const memory = privateBytes(agent.pid);
  try {
    for (let done = 0; done < connections; done += atOnce) {
      await Promise.all(Array.from({ length: atOnce }, () => disturb(random)));
      if (done % 100 === 0) await ok();
    }
    await ok();
    await eventually("no child", () => childrenOf(agent.pid).length === 0, 30_000);
    await eventually("no zombie", () => zombiesOf(agent.pid).length === 0);
    await eventually("the descriptors of before", () => descriptorsOf(agent.pid).length <= descriptors + 1, 30_000);
    expect(privateBytes(agent.pid) - memory).toBeLessThan(64 * 2 ** 20);
    expect(agent.log()).not.toMatch(/uncaught|unhandled/);
  } catch (error) {
    throw new Error(`seed ${seed}`, { cause: error });
  }
});

test("pure noise of any length is closed or waited for, and a right session runs", async () => {
  const random = new Random(seed + 1);
  for (let index = 0; index < 300; index += 1) {
    const socket = await connect();
    socket.resume();
    socket.write(Uint8Array.from({ length: random.below(200) }, () => random.below(256)));
    if (index % 2 === 0) await Bun.sleep(1);
    socket.destroy();
  }
  const client = await RawClient.start(agent.directory, { argv: ["echo", "alive"] });
  expect(await client.exit()).toBe(0);
  expect(agent.log()).not.toMatch(/uncaught|unhandled/);
});

/** Updates that go wrong at a random point: whatever happens, the guest answers again, with a whole program. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import type { ProgramFile } from "#host/clients/control/program-file.ts";
import type { Guest } from "#host/guest.ts";
import { ports } from "#protocol/ports.ts";
import { ProgramFiles, push, tinyProgram } from "../control/programs.ts";
import { frame } from "../control/raw-peer.ts";
import { Random } from "../fuzz/random.ts";
import { Contained } from "../init/contained.ts";

const seed = Number(process.env.VMAPP_FUZZ_SEED ?? Date.now() % 1_000_000_000);
const rounds = process.env.VMAPP_FULL === "1" ? 100 : 12;
const limitMs = 10_000;

const programs = new ProgramFiles();
let good: readonly ProgramFile[];
beforeAll(async () => {
  good = [await programs.compileInit("one"), await programs.compileInit("two")];
}, 60_000);
afterAll(() => programs[Symbol.dispose]());

/** Sends the beginning of a program and drops the connection. */
async function cut(guest: Guest, program: ProgramFile, bytes: number): Promise<void> {
  const { socket } = await guest.dial(ports.control);
  socket.resume();
  socket.write(frame({ v: 1, t: "hello", bin_hash: program.hash }));
  socket.write(frame({ v: 1, t: "update", id: "1", size: program.size }));
  await new Promise<void>((resolve) => socket.write(readFileSync(program.path).subarray(0, bytes), () => resolve()));
  socket.destroy();
}

const killAgent = (guest: Guest): Promise<unknown> => guest.exec(["sh", "-c", "kill -9 $PPID"]).catch(() => {});

/** Runs a command in the guest, however often its agent is just being replaced. */
async function run(guest: Guest, script: string): Promise<string> {
  const deadline = performance.now() + limitMs;
  for (;;) {
    try {
      return (await guest.exec(["sh", "-c", script])).stdout.toString();
    } catch (error) {
      if (performance.now() > deadline) throw error;
      await Bun.sleep(20);
    }
  }
}

const resize = (guest: Guest, size: string) => run(guest, `mount -o remount,size=${size} /var/lib`);

test(`after each of ${rounds} updates that go wrong at random points the guest answers within 10 s (seed ${seed})`, async () => {
  const random = new Random(seed);
  await using machine = await Contained.start();
  const { guest } = machine;
  const known = new Set(["dev", "one", "two"]);
  for (let round = 0; round < rounds; round++) {
    const program = random.pick(good);
    const fault = random.pick([
      "none",
      "cut",
      "agent killed",
      "disk full",
      "exits",
      "crashes",
      "killed on trial",
    ] as const);
    switch (fault) {
      case "none":
        await push(guest, program).catch(() => {});
        break;
      case "cut":
        await cut(guest, program, random.below(program.size));
        break;
      case "agent killed": {
        const pushing = push(guest, program).catch(() => {});
        await Bun.sleep(random.below(600));
        await killAgent(guest);
        await pushing;
        break;
      }
      case "disk full":
        await resize(guest, "150m");
        await run(guest, `head -c ${random.below(150)}M /dev/zero >/var/lib/filler`);
        await push(guest, program).catch(() => {});
        break;
      case "exits":
      case "crashes":
        await push(guest, programs.save("bad", tinyProgram(fault, round))).catch(() => {});
        break;
      case "killed on trial":
        await push(guest, program).catch(() => {});
        await Bun.sleep(random.below(300));
        await killAgent(guest);
        break;
    }
    const started = performance.now();
    for (;;) {
      const hello = await guest.hello({ timeoutMs: 2_000 }).catch(() => undefined);
      const works = hello === undefined ? undefined : await guest.exec(["echo", "whole"]).catch(() => undefined);
      if (hello?.build !== undefined && known.has(hello.build) && works?.stdout.toString() === "whole\n") break;
      if (performance.now() - started > limitMs)
        throw new Error(
          `round ${round}, ${fault}: no whole program answered within 10 s\n${machine.console().slice(-3000)}`,
        );
      await Bun.sleep(20);
    }
    await run(guest, "rm -f /var/lib/filler");
    await resize(guest, "2g");
  }
  expect(await run(guest, "ls /var/lib/vmapp/update")).not.toContain("incoming-");
}, 600_000);

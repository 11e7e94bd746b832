/** Updates with the real PID 1 and the real agent: what a guest that was sent a program answers afterwards. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { ControlClient } from "#host/clients/control/client.ts";
import type { ProgramFile } from "#host/clients/control/program-file.ts";
import type { Guest } from "#host/guest.ts";
import type { HelloReply } from "#protocol/control/replies.ts";
import { ports } from "#protocol/ports.ts";
import { type BadProgram, ProgramFiles, push, tinyProgram } from "../control/programs.ts";
import { runCli } from "../host/cli.ts";
import { Contained } from "../init/contained.ts";

const programs = new ProgramFiles();
let good: ProgramFile;
beforeAll(async () => {
  good = await programs.compileInit("good");
}, 60_000);
afterAll(() => programs[Symbol.dispose]());

const limitMs = 10_000;

/** The first hello that satisfies, as a host that keeps trying sees it. */
async function helloWhere(guest: Guest, satisfies: (hello: HelloReply) => boolean): Promise<HelloReply> {
  const deadline = performance.now() + limitMs;
  for (;;) {
    const hello = await guest.hello({ timeoutMs: 2_000 }).catch(() => undefined);
    if (hello !== undefined && satisfies(hello)) return hello;
    if (performance.now() > deadline) throw new Error("the guest did not answer so within 10 s");
    await Bun.sleep(50);
  }
}

test("a program that was sent takes over, and a shell session goes on in the old one until it ends", async () => {
  await using machine = await Contained.start();
  const { guest } = machine;
  const session = await guest.shell({ argv: ["sh", "-c", "echo began; read word; echo got $word"] });
  let output = "";
  session.stdout.on("data", (chunk: Buffer) => {
    output += chunk.toString();
  });
  while (output === "") await Bun.sleep(10);
  await push(guest, good);
  await helloWhere(guest, ({ hash }) => hash === good.hash);
  expect((await guest.exec(["echo", "new"])).stdout.toString()).toBe("new\n");
  session.stdin.end("word\n");
  expect(await session.exit).toEqual({ code: 0 });
  expect(output).toBe("began\ngot word\n");
  while (!machine.console().includes("replaced process ended")) await Bun.sleep(20);

  await guest.exec(["sh", "-c", "kill -9 $PPID"]).catch(() => {});
  await helloWhere(guest, ({ hash }) => hash === good.hash);
}, 60_000);

test.each<BadProgram>(["exits", "crashes", "hangs"])(
  "after a program that %s the old one answers within 10 s, and the bad one is never taken again",
  async (kind) => {
    await using machine = await Contained.start();
    const { guest } = machine;
    const before = await guest.hello();
    const bad = programs.save(kind, tinyProgram(kind));
    const started = performance.now();
    await push(guest, bad);
    if (kind === "hangs") while (!machine.console().includes("service replaced")) await Bun.sleep(20);
    const after = await helloWhere(guest, () => true);
    expect(performance.now() - started).toBeLessThan(limitMs);
    expect(after.build).toBe(before.build as string);
    while (!machine.console().includes("update given up")) await Bun.sleep(20);
    await helloWhere(guest, () => true);
    await expect(push(guest, bad)).rejects.toMatchObject({ code: "update_rejected" });
    expect((await guest.exec(["echo", "whole"])).stdout.toString()).toBe("whole\n");
  },
  60_000,
);

test("after a bad second update the first one runs again", async () => {
  await using machine = await Contained.start();
  const { guest } = machine;
  await push(guest, good);
  await helloWhere(guest, ({ hash }) => hash === good.hash);
  await push(guest, programs.save("bad", tinyProgram("exits", 1)));
  while (!machine.console().includes("update given up")) await Bun.sleep(20);
  await helloWhere(guest, ({ hash }) => hash === good.hash);
}, 60_000);

test("a lasting client brings a guest to its program, and is ready only then", async () => {
  await using machine = await Contained.start();
  const names: string[] = [];
  using client = new ControlClient({
    dial: () => machine.guest.dial(ports.control),
    program: good.path,
    onState: ({ name }) => names.push(name),
    delay: () => 100,
  }).start();
  await client.ready({ timeoutMs: 30_000 });
  expect(client.hello?.hash).toBe(good.hash);
  expect(client.hello?.need_update).toBeUndefined();
  expect(names.filter((name) => name === "updating" || name === "ready")).toEqual(["updating", "ready"]);
}, 60_000);

test("vmapp update brings a guest to a program, says so, and has nothing to do the second time", async () => {
  await using machine = await Contained.start();
  const vmapp = (program: string) => runCli(["update", `unix:${machine.sockets}`, program]);
  expect(await vmapp(good.path)).toMatchObject({ code: 0, stdout: `unix:${machine.sockets} runs ${good.hash}\n` });
  expect((await vmapp(good.path)).stdout).toContain("runs that program already");
  const bad = programs.save("refused", Buffer.from("#!/bin/sh\n"));
  expect(await vmapp(bad.path)).toMatchObject({
    code: 255,
    stderr: expect.stringContaining("what was sent is not an executable"),
  });
}, 60_000);

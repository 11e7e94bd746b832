/** Updates in a real guest, on a VM of their own because they replace its agent. Hazard 16. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { resolve } from "node:path";
import type { Vm } from "#host/vm/vm.ts";
import type { HelloReply } from "#protocol/control/replies.ts";
import { ProgramFiles, push, tinyProgram } from "../control/programs.ts";
import { bootTimeoutMs, startTestVm } from "./fixture.ts";

/** Bun's executable with the guest's loader, left there by the image's build */
const interpreter = resolve(import.meta.dir, `../../.cache/image/${process.arch}/bun`);

const programs = new ProgramFiles();
let vm: Vm;
beforeAll(async () => {
  vm = await startTestVm({ name: "update" });
}, bootTimeoutMs);
afterAll(() => programs[Symbol.dispose]());

async function hello(limitMs: number, satisfies: (hello: HelloReply) => boolean = () => true): Promise<HelloReply> {
  const deadline = performance.now() + limitMs;
  for (;;) {
    const answer = await vm.guest.hello({ timeoutMs: 2_000 }).catch(() => undefined);
    if (answer !== undefined && satisfies(answer)) return answer;
    if (performance.now() > deadline) throw new Error(`no such hello within ${limitMs / 1000} s`);
    await Bun.sleep(100);
  }
}

const said = (text: string): boolean => vm.consoleTail(300).some((line) => line.includes(text));

test("hazard 16: after programs that exit at once or hang, the old one serves again within seconds", async () => {
  const before = await hello(10_000);
  for (const kind of ["exits", "hangs"] as const) {
    const bad = programs.save(kind, tinyProgram(kind));
    await push(vm.guest, bad);
    while (!said(`update on trial sha256=${bad.hash}`)) await Bun.sleep(50);
    // 8 s of trial, and the start of a program under software emulation.
    expect((await hello(20_000)).build).toBe(before.build as string);
    while (!said(`update given up sha256=${bad.hash}`)) await Bun.sleep(50);
    await hello(10_000);
    await expect(push(vm.guest, bad)).rejects.toMatchObject({ code: "update_rejected" });
  }
}, 120_000);

test("hazard 16: a good program takes over within seconds while a session goes on, and survives a kill", async () => {
  const good = await programs.compileInit("update-test", interpreter);
  const session = await vm.guest.shell({ argv: ["sh", "-c", "echo began; read word; echo got $word"] });
  let output = "";
  session.stdout.on("data", (chunk: Buffer) => {
    output += chunk.toString();
  });
  await push(vm.guest, good);
  await hello(20_000, ({ build }) => build === "update-test");
  session.stdin.end("word\n");
  expect(await session.exit).toEqual({ code: 0 });
  expect(output).toBe("began\ngot word\n");
  while (!said("update took")) {
    await vm.guest.exec(["sh", "-c", "kill -9 $PPID"]).catch(() => {});
    await hello(20_000, ({ build }) => build === "update-test");
  }
  expect((await vm.guest.exec(["echo", "whole"])).stdout.toString()).toBe("whole\n");
  // The program that was sent runs from another place than the runtime, whose parts it needs.
  const terminal = await vm.guest.shell({ argv: ["tty"], tty: true });
  let name = "";
  terminal.stdout.on("data", (chunk: Buffer) => {
    name += chunk.toString();
  });
  expect(await terminal.exit).toEqual({ code: 0 });
  expect(name).toStartWith("/dev/pts/");
}, 180_000);

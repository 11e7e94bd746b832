/** A console that takes nothing: a serial line whose reader has stopped. The guest goes on, and says later what was lost. */
import { beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { stateFiles } from "#host/vm/state.ts";
import type { Vm } from "#host/vm/vm.ts";
import { bootTimeoutMs, startTestVm } from "./fixture.ts";

setDefaultTimeout(120_000);

const lineCount = 20_000;
let vm: Vm;
beforeAll(async () => {
  vm = await startTestVm({
    name: "console",
    config: {
      // Sleeps until it is told to talk, and says when it has said everything.
      app: {
        argv: [
          "sh",
          "-c",
          `until [ -e /run/talk ]; do sleep 0.1; done; seq 1 ${lineCount}; touch /run/said; sleep 1000`,
        ],
        restart: "never",
      },
    },
  });
}, bootTimeoutMs);

/** Stops and starts a terminal's output as ^S and ^Q do. */
const flowControl = `
  const { symbols } = require("bun:ffi").dlopen("libc.so.6", { ioctl: { args: ["int", "u64", "u64"], returns: "int" } });
  const TCXONC = 0x540a;
  const console_ = require("fs").openSync("/dev/ttyS0", "w");
  process.exitCode = symbols.ioctl(console_, TCXONC, { stop: 0, start: 1 }[process.argv.at(-1)]) === 0 ? 0 : 1;
`;

async function consoleOutput(wish: "stop" | "start"): Promise<void> {
  const argv = ["/opt/vmapp/bin/vmapp-init", "-e", flowControl, wish];
  const { code, stderr } = await vm.guest.exec(argv, { env: { BUN_BE_BUN: "1" } });
  if (code !== 0) throw new Error(`the console's output cannot be ${wish}ed: ${stderr}`);
}

/** The lines of the console's log, once one of them has this text. */
async function untilSaid(text: string): Promise<string[]> {
  for (const deadline = performance.now() + 60_000; ; await Bun.sleep(50)) {
    const log = readFileSync(join(vm.directory, stateFiles.consoleLog), "utf8");
    if (log.includes(text)) return log.split(/\r?\n/);
    if (performance.now() > deadline) throw new Error(`the console does not say ${JSON.stringify(text)}`);
  }
}

async function shell(script: string): Promise<string> {
  return (await vm.guest.exec(["sh", "-c", script])).stdout.toString();
}

async function untilAnswers(): Promise<void> {
  for (const deadline = performance.now() + 30_000; ; await Bun.sleep(50)) {
    const answer = await vm.guest.exec(["echo", "here"]).catch((error: Error) => error);
    if (!(answer instanceof Error)) return;
    if (performance.now() > deadline) throw answer;
  }
}

test("a console that takes nothing holds up neither PID 1, nor the services, nor the app for long", async () => {
  await consoleOutput("stop");
  await shell("touch /run/talk");
  // The app is slowed down, not stopped.
  await shell("for i in $(seq 300); do [ -e /run/said ] && exit; usleep 100000; done");
  expect(await shell("[ -e /run/said ] && echo said")).toBe("said\n");

  const zombies = "grep -l '^State:.Z' /proc/[0-9]*/status 2>/dev/null | wc -l";
  expect(await shell(`for i in $(seq 20); do (sleep 0.1 &); done; sleep 2; ${zombies}`)).toBe("0\n");

  const killAgent = "for p in $(pidof vmapp-init); do grep -q agent /proc/$p/cmdline && kill -9 $p; done";
  expect(await shell(killAgent).catch((error: Error) => error)).toBeInstanceOf(Error);
  await untilAnswers();

  await consoleOutput("start");
  const lines = await untilSaid("lines were lost");
  const lost = Number(/lines were lost.* count=(\d+)/.exec(lines.join("\n"))?.[1]);
  const shown = lines.filter((line) => /^app: \d+$/.test(line)).length;
  expect(shown).toBeGreaterThan(0);
  expect(shown + lost).toBeGreaterThanOrEqual(lineCount);
});

test("the guest powers off as asked while its console takes nothing", async () => {
  await consoleOutput("stop");
  await shell("head -c 20000 /dev/zero > /dev/ttyS0 & sleep 1");
  expect(await vm.stop()).toMatchObject({ step: "guest", problems: [] });
});

/** `vmapp app` on a VM: its commands share one session, since a core serves one connection. */
import { afterAll, afterEach, beforeAll, expect, test } from "bun:test";
import { randomUUID } from "node:crypto";
import { existsSync, mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { hostBootId, identifyProcess } from "#host/vm/process-identity.ts";
import { writeVmRecord } from "#host/vm/state.ts";
import { runCli, spawnCli } from "#test/host/cli.ts";
import { type Forwarder, startForwarder, waitUntil } from "./bridge-forwarder.ts";

const core = new URL("./bridge-core.ts", import.meta.url).pathname;
const runtime = mkdtempSync(join(tmpdir(), "vmapp-sessions-"));
const directory = join(runtime, "vmapp", "a");
const env = { XDG_RUNTIME_DIR: runtime };
const children: { kill(signal: number): void; exited: Promise<unknown> }[] = [];
let forwarder: Forwarder;

beforeAll(async () => {
  forwarder = await startForwarder();
  const owner = identifyProcess(process.pid);
  if (owner === undefined) throw new Error("no identity");
  mkdirSync(directory, { recursive: true, mode: 0o700 });
  writeVmRecord(directory, {
    format: 1,
    name: "a",
    id: randomUUID(),
    state: "running",
    created: new Date().toISOString(),
    bootId: hostBootId(),
    owner,
    image: "/",
    target: `unix:${dirname(forwarder.hostPath)}`,
    memoryMib: 1,
    cpus: 1,
    detached: false,
    remove: false,
  });
});
afterEach(async () => {
  for (const child of children.splice(0)) {
    child.kill(9);
    await child.exited;
  }
});
afterAll(async () => {
  await forwarder.stop();
  rmSync(runtime, { recursive: true });
});

function startCore(): void {
  children.push(
    Bun.spawn([process.execPath, core], {
      env: { ...process.env, VMAPP_SOCKET: forwarder.appPath, CORE_STAYS: "1" },
      stdio: ["ignore", "ignore", "ignore"],
    }),
  );
}

function start(...words: string[]) {
  const child = spawnCli(["app", "--json", "a", ...words], { env });
  children.push(child);
  return { child, stdout: new Response(child.stdout).text(), stderr: new Response(child.stderr).text() };
}

const invoke = (...words: string[]) => runCli(["app", "--json", "a", "invoke", ...words], { env });
const isShared = () => existsSync(join(directory, "app.sock"));

test("two calls at the same time are both answered, and the session of the first waits for the second", async () => {
  startCore();
  const first = start("invoke", "slow", "1500");
  await waitUntil(isShared, "the session of the first");
  const [second, third] = [invoke("slow", "3000"), invoke("echo", '"third"')];
  expect(await third).toEqual({ code: 0, stdout: '["third"]\n', stderr: "" });
  expect(await second).toEqual({ code: 0, stdout: "3000\n", stderr: "" });
  expect([await first.child.exited, await first.stdout]).toEqual([0, "1500\n"]);
  expect(isShared()).toBe(false);
  expect((await invoke("echo", "4")).stdout).toBe("[4]\n");
});

test("a call joins a watch that still waits for the app, and waits with it", async () => {
  const watch = start("watch");
  await waitUntil(isShared, "the session of the watch");
  const early = await runCli(["app", "--timeout", "0.2", "a", "invoke", "echo", "1"], { env });
  expect(early).toMatchObject({ code: 255, stderr: "vmapp: the app was not ready within 0.2 s\n" });
  const call = invoke("echo", '"joined"');
  startCore();
  expect(await call).toEqual({ code: 0, stdout: '["joined"]\n', stderr: "" });
  watch.child.kill("SIGINT");
  expect(await watch.child.exited).toBe(0);
  const types = (await watch.stdout).trimEnd().split("\n");
  expect(types.map((line) => JSON.parse(line).t)).toEqual(["init", "ready", "invoke", "result"]);
});

test("a watch that is interrupted while it waits for the app has ended as it should", async () => {
  const watch = start("watch");
  await waitUntil(isShared, "the session of the watch");
  watch.child.kill("SIGINT");
  expect([await watch.child.exited, await watch.stderr]).toEqual([0, ""]);
});

test("what an app answers does not steer the terminal, and is the same value", async () => {
  startCore();
  const watch = start("watch");
  await waitUntil(isShared, "the session of the watch");
  const { stdout } = await invoke("echo", '"\\u009b2J\\u007f\\u001b[2J"');
  expect(stdout).toBe('["\\u009b2J\\u007f\\u001b[2J"]\n');
  watch.child.kill("SIGINT");
  await watch.child.exited;
  expect(await watch.stdout).not.toMatch(/[\x7f-\x9f]/);
});

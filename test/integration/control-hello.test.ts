import { expect, test } from "bun:test";
import { execFileSync } from "node:child_process";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { ping, version } from "#host/clients/control/core.ts";
import { probeHello, requestPower } from "#host/clients/control/one-shot.ts";
import { ports, unixSocketName } from "#protocol/ports.ts";
import { Daemon } from "../control/daemon.ts";
import { RawPeer } from "../control/raw-peer.ts";
import { answersPing } from "../control/still-answers.ts";
import { startLocalAgent } from "../shell/agent.ts";

test("hello tells the name, the caps, the system and the limits", async () => {
  await using daemon = await Daemon.start({ caps: () => ["shell"], build: "b1" });
  const hello = await probeHello({ target: daemon.target });
  expect(hello).toMatchObject({ v: 1, t: "hello", name: "vphoned", build: "b1", max_frame: 4_194_303 });
  expect(hello.caps).toContain("shell");
  expect(hello.os?.arch).toBe(process.arch);
  expect(hello.need_update).toBeUndefined();
});

test("ping is answered with pong, and version with the build id", async () => {
  await using daemon = await Daemon.start({ build: "b1" });
  const control = await daemon.connect();
  expect(await ping(control)).toBeGreaterThan(0);
  expect(await version(control)).toBe("b1");
});

test("power is neither offered nor obeyed where PID 1 is not vmapp-init", async () => {
  await using daemon = await Daemon.start();
  expect((await probeHello({ target: daemon.target })).caps).not.toContain("power");
  await expect(requestPower({ target: daemon.target, action: "off" })).rejects.toMatchObject({ code: "unavailable" });
  const peer = await daemon.greeted();
  expect(await peer.ask({ v: 1, t: "power", id: "1", action: "off" })).toMatchObject({ t: "err", code: "unavailable" });
  expect(await peer.ask({ v: 1, t: "ping", id: "2" })).toEqual({ v: 1, t: "pong", id: "2" });
});

test("hello is answered without an address by an agent that has no descriptor left to look for one", async () => {
  await using agent = await startLocalAgent();
  const limit = (descriptors: number): Buffer =>
    execFileSync("prlimit", ["--pid", String(agent.pid), `--nofile=${descriptors}:1024`]);
  const open = new Set(readdirSync(`/proc/${agent.pid}/fd`).map(Number));
  let free = 0;
  while (open.has(free)) free++;
  limit(free + 1);
  const peer = await RawPeer.connect(join(agent.directory, unixSocketName(ports.control)));
  const hello = await peer.ask({ v: 1, t: "hello" });
  expect(hello).toMatchObject({ v: 1, t: "hello", name: "vphoned" });
  expect(hello).not.toHaveProperty("ip");
  limit(1024);
  await answersPing(peer);
  peer.close();
}, 30_000);

import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdtempSync, readdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ControlConnection } from "#host/clients/control/connection.ts";
import { ping } from "#host/clients/control/core.ts";
import { dial } from "#host/transport/dial.ts";
import { ports, unixSocketName } from "#protocol/ports.ts";
import { frame, RawPeer } from "../control/raw-peer.ts";
import { type LocalAgent, startLocalAgent } from "../shell/agent.ts";

let agent: LocalAgent;
let folder: string;
beforeAll(async () => {
  agent = await startLocalAgent();
  folder = mkdtempSync(join(tmpdir(), "vmapp-many-"));
});
afterAll(async () => {
  await agent.stop();
  rmSync(folder, { recursive: true, force: true });
});

const connect = async (): Promise<ControlConnection> =>
  ControlConnection.open(await dial({ target: { kind: "unix", directory: agent.directory }, port: ports.control }));
const raw = (): Promise<RawPeer> => RawPeer.connect(join(agent.directory, unixSocketName(ports.control)));

function residentBytes(pid: number): number {
  return Number(/^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1]) * 1024;
}

/** 99th percentile of the round trip in milliseconds, each connection pinged in turn. */
async function slowestPings(connections: readonly ControlConnection[], rounds: number): Promise<number> {
  const times: number[] = [];
  for (let round = 0; round < rounds; round++) for (const control of connections) times.push(await ping(control));
  times.sort((a, b) => a - b);
  return times[Math.floor(times.length * 0.99)] as number;
}

test("with 50 sessions, one silent, one stuck in a 1 GiB upload and one that does not read, pings stay prompt", async () => {
  const connections = await Promise.all(Array.from({ length: 47 }, connect));
  const idle = await slowestPings(connections, 10);

  const silent = await raw();
  const uploader = await raw();
  uploader.sendBytes(frame({ v: 1, t: "hello" }));
  const size = 1024 ** 3;
  uploader.sendBytes(frame({ v: 1, t: "file_put", id: "1", path: join(folder, "upload"), size }));
  uploader.sendBytes(Buffer.alloc(100 * 1024 * 1024));
  const deaf = await raw();
  deaf.socket.pause();
  writeFileSync(join(folder, "big"), "");
  truncateSync(join(folder, "big"), size);
  deaf.sendBytes(frame({ v: 1, t: "hello" }));
  deaf.sendBytes(frame({ v: 1, t: "file_get", id: "1", path: join(folder, "big") }));

  const before = residentBytes(agent.pid);
  const busy = await slowestPings(connections, 10);
  expect(busy - idle).toBeLessThan(100);
  await Bun.sleep(500);
  expect(residentBytes(agent.pid) - before).toBeLessThan(32 * 1024 * 1024);

  for (const peer of [silent, uploader, deaf]) peer.close();
  while (readdirSync(folder).length > 1) await Bun.sleep(10);
  for (const control of connections) {
    await ping(control);
    control.close();
  }
}, 60_000);

test("200 connects in the instant after the port opens are all answered", async () => {
  const fresh = await startLocalAgent();
  try {
    const target = { kind: "unix", directory: fresh.directory } as const;
    await Promise.all(
      Array.from({ length: 200 }, async () => {
        const control = await ControlConnection.open(await dial({ target, port: ports.control }));
        await ping(control);
        control.close();
      }),
    );
  } finally {
    await fresh.stop();
  }
}, 60_000);

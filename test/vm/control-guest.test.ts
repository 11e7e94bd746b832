/** The control daemon in a real guest, over real vsock. The guest is shared: each test leaves it as it found it. */
import { beforeAll, expect, test } from "bun:test";
import { createHash, randomBytes } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ControlConnection } from "#host/clients/control/connection.ts";
import { ping, reseed, setClock, stats } from "#host/clients/control/core.ts";
import type { Vm } from "#host/vm/vm.ts";
import { ports } from "#protocol/ports.ts";
import { frame } from "../control/raw-peer.ts";
import { bootTimeoutMs, sharedVm } from "./fixture.ts";

let vm: Vm;
beforeAll(async () => {
  vm = await sharedVm();
}, bootTimeoutMs);

const minute = 60_000;
const connect = async (binHash?: string): Promise<ControlConnection> =>
  ControlConnection.open(await vm.guest.dial(ports.control), { binHash });

async function guestOutput(script: string): Promise<string> {
  const { code, stdout, stderr } = await vm.guest.exec(["sh", "-c", script]);
  if (code !== 0) throw new Error(`exit ${code}: ${stderr}`);
  return stdout.toString();
}

test(
  "the guest offers files, power, clock and reseed, and knows its own hash within a handshake",
  async () => {
    const control = await connect("0".repeat(64));
    expect(control.hello.caps).toEqual(
      expect.arrayContaining(["file", "power", "clock", "reseed", "stats", "shell.env"]),
    );
    expect(control.hello.hash).toMatch(/^[0-9a-f]{64}$/);
    expect(await guestOutput("sha256sum /opt/vmapp/bin/vmapp-init")).toStartWith(control.hello.hash ?? "none");
    control.close();
  },
  minute,
);

test(
  "16 MiB go in and out whole, and what is cut leaves nothing behind",
  async () => {
    const folder = mkdtempSync(join(tmpdir(), "vmapp-vm-"));
    using files = vm.guest.files;
    try {
      const content = randomBytes(16 * 1024 * 1024);
      writeFileSync(join(folder, "in"), content);
      await files.put(join(folder, "in"), "/tmp/control/in");
      const hash = createHash("sha256").update(content).digest("hex");
      expect(await guestOutput("sha256sum /tmp/control/in")).toStartWith(hash);
      await files.get("/tmp/control/in", join(folder, "out"));
      expect(readFileSync(join(folder, "out")).equals(content)).toBe(true);

      const connection = await vm.guest.dial(ports.control);
      connection.socket.resume();
      connection.socket.write(frame({ v: 1, t: "hello" }));
      connection.socket.write(frame({ v: 1, t: "file_put", id: "1", path: "/tmp/control/in", size: content.length }));
      connection.socket.write(content.subarray(0, 1_000_000));
      while ((await files.list("/tmp/control")).length < 2) await Bun.sleep(20);
      connection.socket.destroy();
      while ((await files.list("/tmp/control")).length > 1) await Bun.sleep(20);
      expect(await guestOutput("sha256sum /tmp/control/in")).toStartWith(hash);
    } finally {
      await files.remove("/tmp/control");
      rmSync(folder, { recursive: true, force: true });
    }
  },
  2 * minute,
);

test(
  "hazard 10: a clock 36 hours off is stepped and logged, 50 ms are left alone, and no timer of the agent fires early",
  async () => {
    const control = await connect();
    const silent = await vm.guest.dial(ports.control);
    let dropped = false;
    silent.socket.on("close", () => {
      dropped = true;
    });
    silent.socket.resume();
    try {
      const time = Date.now() / 1000 + 36 * 3600;
      const reply = await control.request({ t: "clock_set", time }, { timeoutMs: 10_000 });
      expect(reply).toMatchObject({ stepped: true });
      expect(Math.abs(Number(await guestOutput("date +%s")) - time)).toBeLessThan(10);
      expect(vm.consoleTail(50).join("\n")).toContain("clock stepped");
      await Bun.sleep(1_000);
      expect(dropped).toBe(false);
      await ping(control);
    } finally {
      await setClock(control);
    }
    for (const milliseconds of [-50, 50]) {
      const guestTime = Number(await guestOutput("date +%s.%N")) || Date.now() / 1000;
      const offset = guestTime - Date.now() / 1000;
      expect(Math.abs(offset)).toBeLessThan(5);
      const reply = await control.request(
        { t: "clock_set", time: Date.now() / 1000 + milliseconds / 1000 },
        { timeoutMs: 10_000 },
      );
      expect(reply).toMatchObject({ stepped: false });
    }
    silent.socket.destroy();
    control.close();
  },
  minute,
);

test(
  "hazard 11: the generator is reseeded, and a guest that cannot says so",
  async () => {
    const control = await connect();
    await reseed(control);
    // The line takes the way over the console, not over the connection.
    const logged = () => vm.consoleTail(50).join("\n").includes("random number generator reseeded");
    for (const deadline = performance.now() + 10_000; !logged() && performance.now() < deadline; ) await Bun.sleep(50);
    expect(logged()).toBe(true);
    // An agent that is not root may do neither step.
    using files = vm.guest.files;
    const built = await Bun.build({ entrypoints: [join(import.meta.dir, "guest/control-ask.ts")], target: "bun" });
    await files.write("/tmp/ask.js", (await built.outputs[0]?.text()) ?? "");
    const request = JSON.stringify({ t: "reseed", id: "1", seed: Buffer.alloc(64, 1).toString("base64") });
    const answer = await guestOutput(`
      mkdir -m 777 /tmp/agent
      su -s /bin/sh nobody -c 'exec /opt/vmapp/bin/vmapp-init agent --listen unix:/tmp/agent' 2>/dev/null &
      while [ ! -S /tmp/agent/1028.sock ]; do sleep 0.1; done
      BUN_BE_BUN=1 /opt/vmapp/bin/vmapp-init /tmp/ask.js /tmp/agent/1337.sock '${request}'
      kill %1
      rm -rf /tmp/agent /tmp/ask.js`);
    expect(JSON.parse(answer)).toMatchObject({ t: "err", id: "1", msg: expect.stringContaining("reseed failed") });
    await ping(control);
    control.close();
  },
  minute,
);

test(
  "stats are those of the guest",
  async () => {
    const control = await connect();
    const { memory, processes, uptime } = await stats(control);
    expect(memory.total).toBeGreaterThan(100 * 1024 * 1024);
    expect(memory.available).toBeLessThan(memory.total);
    expect(processes).toBeGreaterThan(2);
    expect(uptime).toBeGreaterThan(1);
    control.close();
  },
  minute,
);

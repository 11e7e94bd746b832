/** The app bridge in real guests: the example apps under PID 1, and the forwarder over AF_VSOCK. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { execFileSync, spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import type { Vm } from "#host/vm/vm.ts";
import { ports } from "#protocol/ports.ts";
import { closeScenarios } from "../integration/bridge-close-orders.ts";
import { waitUntil } from "../integration/bridge-forwarder.ts";
import { runNotesSession } from "../integration/bridge-notes-session.ts";
import { pattern } from "../integration/bridge-pattern.ts";
import { bootTimeoutMs, sharedVm, startTestVm } from "./fixture.ts";

const cli = resolve(import.meta.dir, "../../host-client/cli/main.ts");
const demo = resolve(import.meta.dir, "../../dist/image/demo-x64");
const minutes = 60_000;

async function output(vm: Vm, script: string): Promise<string> {
  const { code, stdout, stderr } = await vm.guest.exec(["sh", "-c", script]);
  if (code !== 0) throw new Error(`exit ${code}: ${stderr}`);
  return stdout.toString();
}

function vmapp(...args: string[]): Promise<{ code: number | null; stdout: string }> {
  const child = spawn(process.execPath, [cli, ...args], { stdio: ["ignore", "pipe", "inherit"] });
  let stdout = "";
  child.stdout.on("data", (chunk: Buffer) => {
    stdout += chunk.toString();
  });
  return new Promise((done) => child.once("close", (code) => done({ code, stdout })));
}

describe("the demo image", () => {
  test(
    "the session in the protocol's description runs with the notes app, and its quitting powers the VM off",
    async () => {
      const vm = await startTestVm({ name: "bridge-notes", image: demo });
      await output(
        vm,
        "mkdir -p /host/f-notes /host/pick-0; head -c 120 /dev/zero | tr '\\0' a >/host/f-notes/alpha.md; echo idea >/host/pick-0/ideas.txt",
      );
      await runNotesSession({
        dial: (signal) => vm.guest.dial(ports.bridge, { signal }),
        folder: "/host/f-notes",
        picked: "/host/pick-0/ideas.txt",
        writeNote: async (name, text) => {
          await output(vm, `printf %s ${text} >/host/f-notes/${name}`);
        },
        readNote: (name) => output(vm, `cat /host/f-notes/${name}`),
      });
      expect(await vm.exited).toMatchObject({ state: "stopped" });
      expect(vm.consoleTail(40).join("\n")).toContain('going down action=power-off reason="the app has quit"');
    },
    bootTimeoutMs + minutes,
  );

  test(
    "the boot config names another app, in C, that runs as a user of its own and is started again when it ends",
    async () => {
      const vm = await startTestVm({
        name: "bridge-hasher",
        image: demo,
        config: { app: { argv: ["/opt/hasher/hasher"], user: "nobody", data: "/var/lib/hasher", restart: "always" } },
      });
      await using session = await vm.guest.app();
      expect(await session.invoke("hasher:crc32", "123456789")).toBe("cbf43926");
      expect(await output(vm, "stat -c %u /proc/$(pidof hasher) /var/lib/hasher /run/vmapp/app/app.sock")).toBe(
        "65534\n65534\n65534\n",
      );
      const again = new Promise<void>((ready) => session.on("state", (state) => state === "ready" && ready()));
      await output(vm, "kill -KILL $(pidof hasher)");
      await again;
      expect(await session.invoke("hasher:crc32", "123456789")).toBe("cbf43926");
      await session.close();

      // On the command line, watching and calling share one session; quitting ends the VM.
      const watching = spawn(process.execPath, [cli, "app", "--json", vm.name, "watch"], {
        stdio: ["ignore", "pipe", 2],
      });
      const watched = new Promise<void>((done) => watching.once("close", () => done()));
      let seen = "";
      watching.stdout?.on("data", (chunk: Buffer) => {
        seen += chunk.toString();
      });
      await waitUntil(() => seen.includes('"t":"ready"'), "the watcher's session", minutes);
      const called = await vmapp("app", "--json", vm.name, "invoke", "hasher:crc32", '"123456789"');
      expect(called).toEqual({ code: 0, stdout: '"cbf43926"\n' });
      await waitUntil(() => seen.includes("cbf43926"), "the watcher to see the call");
      expect((await vmapp("app", vm.name, "quit")).code).toBe(0);
      await watched;
      expect(await vm.exited).toMatchObject({ state: "stopped" });
    },
    bootTimeoutMs + 2 * minutes,
  );
});

describe("the forwarder over AF_VSOCK", () => {
  let vm: Vm;
  let built: string;
  beforeAll(async () => {
    built = mkdtempSync(join(tmpdir(), "vmapp-bridge-peers-"));
    const peers = join(built, "peers.js");
    execFileSync(process.execPath, [
      "build",
      resolve(import.meta.dir, "guest/bridge-peers.ts"),
      "--target=bun",
      `--outfile=${peers}`,
    ]);
    vm = await sharedVm();
    await vm.guest.files.put(peers, "/tmp/bridge/peers.js");
  }, bootTimeoutMs);
  afterAll(async () => {
    rmSync(built, { recursive: true, force: true });
    await output(vm, "rm -rf /tmp/bridge /run/vmapp/app.sock");
  });

  /** The command line of a peer in the guest; what it prints is in its log. */
  const peer = (words: string) => `BUN_BE_BUN=1 /opt/vmapp/bin/vmapp-init /tmp/bridge/peers.js ${words}`;

  /** Starts a peer in the background, and waits until it has said that it listens. */
  async function startPeer(words: string): Promise<void> {
    await output(vm, `rm -f /tmp/bridge/log; setsid sh -c '${peer(words)}' </dev/null >/tmp/bridge/log 2>&1 &`);
    await output(vm, "for i in $(seq 200); do grep -q listening /tmp/bridge/log && exit; usleep 100000; done; exit 1");
  }

  test(
    "closing, in every order, over the guest's vsock loopback: everything arrives, then the end",
    async () => {
      const log = await output(
        vm,
        `${peer("forward 2048 /tmp/bridge/app.sock")} & forwarder=$!; sleep 3; ${peer("scenarios 2048 /tmp/bridge/app.sock")}; kill $forwarder`,
      );
      const outcomes = log.split("\n").filter((line) => /^(ok|failed) /.test(line));
      expect(outcomes).toEqual(closeScenarios.map(({ name }) => `ok ${name}`));
    },
    4 * minutes,
  );

  test(
    "a program of the guest is not served on the bridge's own port",
    async () => {
      await startPeer("collect /run/vmapp/app.sock /tmp/bridge/collected");
      expect(await output(vm, peer(`probe ${ports.bridge}`))).toBe("closed\n");
      const connection = await vm.guest.dial(ports.bridge);
      connection.socket.resume();
      await connection.finish(Buffer.from("still served"));
      const hash = createHash("sha256").update("still served").digest("hex");
      expect(await output(vm, collected)).toBe(hash);
    },
    4 * minutes,
  );

  const collected =
    "for i in $(seq 200); do [ -s /tmp/bridge/collected ] && break; usleep 100000; done; cat /tmp/bridge/collected; rm -f /tmp/bridge/collected";

  test(
    "over the hybrid transport, what the host sends before it closes arrives whole",
    async () => {
      await startPeer("collect /run/vmapp/app.sock /tmp/bridge/collected");
      const bytes = pattern(8 * 1024 * 1024, 20);
      const connection = await vm.guest.dial(ports.bridge);
      connection.socket.resume();
      await connection.finish(bytes);
      expect(await output(vm, collected)).toBe(createHash("sha256").update(bytes).digest("hex"));
    },
    2 * minutes,
  );

  test(
    "over the hybrid transport, what the app sends before it closes arrives whole, and then the end",
    async () => {
      const count = 5 * 1024 * 1024;
      await startPeer(`send /run/vmapp/app.sock ${count}`);
      const { socket } = await vm.guest.dial(ports.bridge);
      const chunks: Buffer[] = [];
      for await (const chunk of socket) chunks.push(chunk as Buffer);
      expect(Buffer.concat(chunks).equals(pattern(count, 21))).toBe(true);
    },
    2 * minutes,
  );
});

/** The shell contract beside socat, OpenSSH and a plain spawn. Every contender runs the same commands. */
import { chmodSync, existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Guest } from "#host/guest.ts";
import { startLocalAgent } from "../shell/agent.ts";
import { type Contender, type ContractBench, compare, median, type Row } from "./harness.ts";
import { SocatPeer } from "./socat-peer.ts";
import { SshPeer } from "./ssh-peer.ts";

const mib = 1024 * 1024;
const blockBytes = 128 * 1024;
const pipeBlocks = 4096;
const sshBlocks = 1024;
const ptyBlocks = 512;
const block = new Uint8Array(blockBytes);
const commandsARound = 20;
/** runs of `true` that are not counted, until both ends' code has been compiled */
const warmUpCommands = 250;

const produce = (blocks: number) => `dd if=/dev/zero bs=128k count=${blocks} status=none`;
/** shell scripts, in files because every contender quotes differently */
const consumeScript = "cat > /dev/null; echo all";
const ptyScript = `stty raw; exec ${produce(ptyBlocks)}`;

async function timed(work: () => Promise<void>): Promise<number> {
  const started = performance.now();
  await work();
  return performance.now() - started;
}

const rate = (blocks: number, ms: number) => (blocks * blockBytes) / mib / (ms / 1000);

/** median milliseconds of one of many runs */
async function latency(work: () => Promise<void>): Promise<number> {
  const all: number[] = [];
  for (let run = 0; run < commandsARound; run += 1) all.push(await timed(work));
  return median(all);
}

function expectEqual(what: string, got: unknown, wanted: unknown): void {
  if (got !== wanted) throw new Error(`${what}: ${String(got)} instead of ${String(wanted)}`);
}

export async function benchShell(): Promise<ContractBench> {
  await using cleanup = new AsyncDisposableStack();
  const scripts = mkdtempSync(join(tmpdir(), "vmapp-bench-"));
  cleanup.defer(() => rmSync(scripts, { recursive: true, force: true }));
  chmodSync(scripts, 0o755);
  const script = (name: string, text: string) => {
    const path = join(scripts, name);
    writeFileSync(path, text);
    return ["sh", path];
  };
  const agent = await startLocalAgent();
  cleanup.defer(() => agent.stop());
  const guest = Guest.connect(agent.target);
  const notes = [
    "socat's EXEC gives a command socket pairs, which move faster and cannot be opened again (echo > /dev/stdout fails);",
    "the contract asks for pipes, as EXEC,pipes has them",
  ];
  const socat = async (command: string, options: string[] = []) => {
    const peer = await new SocatPeer(command, options).ready();
    cleanup.defer(() => peer.stop());
    return peer;
  };
  let ssh: SshPeer | undefined;
  if (SshPeer.lacking === undefined) {
    ssh = await SshPeer.start();
    const started = ssh;
    cleanup.defer(() => started.stop());
  } else {
    notes.push(SshPeer.lacking);
  }

  const rows: Row[] = [
    await pipeOutput(guest, socat, ssh),
    await pipeInput(guest, socat, ssh, script("consume", consumeScript)),
    await ptyOutput(guest, socat, script("pty", ptyScript)),
    await libraryLatency(guest, socat, notes),
  ];
  const cli = join(import.meta.dirname, "../../dist/vmapp");
  if (ssh !== undefined && existsSync(cli)) rows.push(await cliLatency(cli, agent.target, ssh));
  else if (!existsSync(cli)) notes.push("the CLI was left out: there is no dist/vmapp; run `make build`");
  return { contract: "shell", rows, notes };
}

type StartSocat = (command: string, options?: string[]) => Promise<SocatPeer>;

async function pipeOutput(guest: Guest, startSocat: StartSocat, ssh: SshPeer | undefined): Promise<Row> {
  const command = produce(pipeBlocks);
  const wideBuffer = ["-b", "262144"];
  const [plain, wide, wideOnPipes] = [
    await startSocat(command),
    await startSocat(command, wideBuffer),
    await startSocat(`${command},pipes`, wideBuffer),
  ];
  const bySocat = (peer: SocatPeer) => async () => {
    const ms = await timed(async () => expectEqual("socat", await peer.exchange(), pipeBlocks * blockBytes));
    return rate(pipeBlocks, ms);
  };
  const peers: Contender[] = [
    { name: "socat EXEC", measure: bySocat(plain), aim: { atLeast: 2 } },
    { name: "socat -b 262144 EXEC", measure: bySocat(wide), aim: { atLeast: 1 } },
    { name: "socat -b 262144 EXEC,pipes", measure: bySocat(wideOnPipes) },
  ];
  if (ssh !== undefined)
    peers.push({
      name: "ssh",
      aim: { atLeast: 2.5 },
      measure: async () => rate(sshBlocks, await timed(() => sshOutput(ssh))),
    });
  return compare({
    name: "pipe output",
    unit: "MiB/s",
    rounds: 5,
    ours: async () => rate(pipeBlocks, await timed(() => ourOutput(guest, command.split(" "), pipeBlocks))),
    peers,
  });
}

async function ourOutput(guest: Guest, argv: string[], blocks: number, tty = false): Promise<void> {
  const session = await guest.shell({ argv, tty });
  let bytes = 0;
  session.stdout.on("data", (chunk: Buffer) => {
    bytes += chunk.length;
  });
  session.stderr.resume();
  const ended = new Promise((resolve) => session.stdout.on("end", resolve));
  const [{ code }] = await Promise.all([session.exit, ended]);
  expectEqual("exit", code, 0);
  expectEqual("bytes", bytes, blocks * blockBytes);
}

async function sshOutput(ssh: SshPeer): Promise<void> {
  const child = Bun.spawn(ssh.command(produce(sshBlocks)), { stdio: ["ignore", "pipe", "inherit"] });
  let bytes = 0;
  for await (const chunk of child.stdout) bytes += chunk.length;
  expectEqual("ssh", bytes, sshBlocks * blockBytes);
}

async function pipeInput(
  guest: Guest,
  startSocat: StartSocat,
  ssh: SshPeer | undefined,
  consume: string[],
): Promise<Row> {
  const words = consume.join(" ");
  const [plain, wide] = [await startSocat(words), await startSocat(words, ["-b", "262144"])];
  const bySocat = (peer: SocatPeer) => async () => {
    const ms = await timed(async () => expectEqual("socat", await peer.exchange({ block, count: pipeBlocks }), 4));
    return rate(pipeBlocks, ms);
  };
  const peers: Contender[] = [
    { name: "socat EXEC", measure: bySocat(plain) },
    { name: "socat -b 262144 EXEC", measure: bySocat(wide) },
  ];
  if (ssh !== undefined)
    peers.push({
      name: "ssh",
      measure: async () => rate(sshBlocks, await timed(() => sshInput(ssh, words))),
    });
  return compare({
    name: "pipe input",
    unit: "MiB/s",
    rounds: 5,
    ours: async () => rate(pipeBlocks, await timed(() => ourInput(guest, consume))),
    peers,
  });
}

async function ourInput(guest: Guest, argv: string[]): Promise<void> {
  const session = await guest.shell({ argv });
  session.stderr.resume();
  let text = "";
  session.stdout.on("data", (chunk: Buffer) => {
    text += chunk.toString();
  });
  for (let left = pipeBlocks; left > 0; left -= 1)
    if (!session.stdin.write(block)) await new Promise((resolve) => session.stdin.once("drain", resolve));
  session.stdin.end();
  expectEqual("exit", (await session.exit).code, 0);
  expectEqual("answer", text, "all\n");
}

async function sshInput(ssh: SshPeer, command: string): Promise<void> {
  const child = Bun.spawn(ssh.command(command), { stdio: ["pipe", "pipe", "inherit"] });
  for (let left = sshBlocks; left > 0; left -= 1) {
    child.stdin.write(block);
    await child.stdin.flush();
  }
  await child.stdin.end();
  expectEqual("ssh", await new Response(child.stdout).text(), "all\n");
}

async function ptyOutput(guest: Guest, startSocat: StartSocat, argv: string[]): Promise<Row> {
  const peer = await startSocat(`${argv.join(" ")},pty`);
  return compare({
    name: "pty output",
    unit: "MiB/s",
    rounds: 5,
    ours: async () => rate(ptyBlocks, await timed(() => ourOutput(guest, argv, ptyBlocks, true))),
    peers: [
      {
        name: "socat EXEC,pty",
        aim: { atLeast: 0.8 },
        measure: async () =>
          rate(ptyBlocks, await timed(async () => expectEqual("socat", await peer.exchange(), ptyBlocks * blockBytes))),
      },
    ],
  });
}

async function runTrue(guest: Guest): Promise<void> {
  expectEqual("exit", (await guest.exec(["true"])).code, 0);
}

async function libraryLatency(guest: Guest, startSocat: StartSocat, notes: string[]): Promise<Row> {
  const peer = await startSocat("true");
  const firstMs = await latency(() => runTrue(guest));
  for (let run = commandsARound; run < warmUpCommands; run += 1) await runTrue(guest);
  notes.push(
    `true, library: ${firstMs.toFixed(2)} ms in the first ${commandsARound} runs, before its code is compiled`,
  );
  return compare({
    name: "true, library",
    unit: "ms",
    rounds: 7,
    ours: () => latency(() => runTrue(guest)),
    peers: [
      { name: "spawn and wait", aim: { atMost: 2 }, measure: () => latency(() => spawnAndWait(["true"])) },
      { name: "socat EXEC", measure: () => latency(async () => expectEqual("socat", await peer.exchange(), 0)) },
    ],
  });
}

async function spawnAndWait(words: string[]): Promise<void> {
  const child = Bun.spawn(words, { stdio: ["ignore", "ignore", "ignore"] });
  expectEqual("exit", await child.exited, 0);
}

function cliLatency(cli: string, target: string, ssh: SshPeer): Promise<Row> {
  return compare({
    name: "true, command line",
    unit: "ms",
    rounds: 7,
    ours: () => latency(() => spawnAndWait([cli, "exec", target, "--", "true"])),
    peers: [
      {
        name: "ssh, kept connection",
        aim: { atMost: 1.2 },
        measure: () => latency(() => spawnAndWait(ssh.command("true"))),
      },
    ],
  });
}

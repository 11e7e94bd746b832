/** The control contract beside scp and qemu-guest-agent: files both ways, many small ones, and the time to a hello. */
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Guest } from "#host/guest.ts";
import { startLocalAgent } from "../shell/agent.ts";
import { type Contender, type ContractBench, compare, type Row } from "./harness.ts";
import { QgaPeer } from "./qga-peer.ts";
import { SshPeer } from "./ssh-peer.ts";

const mib = 1024 * 1024;
const bigBytes = 256 * mib;
const smallFiles = 10_000;
const smallBytes = 100;
const hellosARound = 50;
const rounds = 3;

const scpAim = { atLeast: 1.5 };
const qgaAim = { atLeast: 4 };

async function seconds(work: () => Promise<void>): Promise<number> {
  const started = performance.now();
  await work();
  return (performance.now() - started) / 1000;
}

function requireSize(path: string): void {
  if (statSync(path).size !== bigBytes)
    throw new Error(`${path} has ${statSync(path).size} bytes instead of ${bigBytes}`);
}

async function run(words: string[]): Promise<void> {
  const child = Bun.spawn(words, { stdin: "ignore", stdout: "ignore", stderr: "pipe" });
  const errors = await new Response(child.stderr).text();
  if ((await child.exited) !== 0) throw new Error(`${words[0]}: ${errors}`);
}

interface Places {
  /** on the host's side */
  readonly source: string;
  readonly back: string;
  /** what a guest's side would be; every account may write there */
  readonly inside: string;
}

interface Peers {
  readonly guest: Guest;
  readonly ssh: SshPeer | undefined;
  readonly qga: QgaPeer | undefined;
}

export async function benchControl(): Promise<ContractBench> {
  await using cleanup = new AsyncDisposableStack();
  // In memory where that is possible: what is compared is not the disk.
  const folder = mkdtempSync(join(existsSync("/dev/shm") ? "/dev/shm" : tmpdir(), "vmapp-bench-"));
  cleanup.defer(() => rmSync(folder, { recursive: true, force: true }));
  chmodSync(folder, 0o755);
  const places = { source: join(folder, "source"), back: join(folder, "back"), inside: join(folder, "inside") };
  mkdirSync(places.inside);
  chmodSync(places.inside, 0o777);
  writeFileSync(places.source, Buffer.alloc(bigBytes, "vmapp"));
  chmodSync(places.source, 0o644);

  const agent = await startLocalAgent();
  cleanup.defer(() => agent.stop());
  const guest = Guest.connect(agent.target);
  cleanup.defer(() => guest.files[Symbol.dispose]());
  const notes = [
    "Ours checks every file at both ends (CRC-32) and flushes it; scp encrypts, qemu-guest-agent does neither.",
  ];
  const ssh = SshPeer.lacking === undefined ? await SshPeer.start() : undefined;
  if (ssh !== undefined) cleanup.defer(() => ssh.stop());
  const qga = QgaPeer.lacking === undefined ? await QgaPeer.start() : undefined;
  if (qga !== undefined) cleanup.defer(() => qga.stop());
  for (const lacking of [SshPeer.lacking, QgaPeer.lacking]) if (lacking !== undefined) notes.push(lacking);

  const peers = { guest, ssh, qga };
  const rows = [
    await puts(peers, places),
    await gets(peers, places),
    await manyFiles(peers, folder, places),
    await hellos(guest),
  ];
  return { contract: "control", rows, notes };
}

const rate = async (work: () => Promise<void>): Promise<number> => bigBytes / mib / (await seconds(work));

function puts({ guest, ssh, qga }: Peers, { source, inside }: Places): Promise<Row> {
  const contenders: Contender[] = [];
  if (ssh !== undefined)
    contenders.push({
      name: "scp",
      aim: scpAim,
      measure: () => rate(() => run(ssh.copyCommand(source, `:${join(inside, "scp")}`))),
    });
  if (qga !== undefined)
    contenders.push({
      name: "qemu-guest-agent",
      aim: qgaAim,
      measure: () => rate(() => qga.write(join(inside, "qga"), readFileSync(source))),
    });
  return compare({
    name: "put 256 MiB",
    unit: "MiB/s",
    rounds,
    peers: contenders,
    ours: async () => {
      const value = await rate(async () => void (await guest.files.put(source, join(inside, "ours"))));
      requireSize(join(inside, "ours"));
      return value;
    },
  });
}

function gets({ guest, ssh, qga }: Peers, { back, inside }: Places): Promise<Row> {
  const from = join(inside, "ours");
  const contenders: Contender[] = [];
  if (ssh !== undefined)
    contenders.push({ name: "scp", aim: scpAim, measure: () => rate(() => run(ssh.copyCommand(`:${from}`, back))) });
  if (qga !== undefined)
    contenders.push({
      name: "qemu-guest-agent",
      aim: qgaAim,
      measure: () => rate(async () => writeFileSync(back, await qga.read(from))),
    });
  return compare({
    name: "get 256 MiB",
    unit: "MiB/s",
    rounds,
    peers: contenders,
    ours: async () => {
      const value = await rate(async () => void (await guest.files.get(from, back)));
      requireSize(back);
      return value;
    },
  });
}

function manyFiles({ guest, ssh }: Peers, folder: string, { inside }: Places): Promise<Row> {
  const tree = join(folder, "tree");
  mkdirSync(tree);
  for (let index = 0; index < smallFiles; index++)
    writeFileSync(join(tree, `file-${index}`), Buffer.alloc(smallBytes, index));
  const filesPerSecond = async (work: () => Promise<void>): Promise<number> => smallFiles / (await seconds(work));
  const contenders: Contender[] = [];
  if (ssh !== undefined)
    contenders.push({
      name: "scp -r",
      measure: () => {
        // It belongs to the account, but the folder it lies in is ours.
        rmSync(join(inside, "scp-tree"), { recursive: true, force: true });
        return filesPerSecond(() => run(ssh.copyCommand(tree, `:${join(inside, "scp-tree")}`)));
      },
    });
  return compare({
    name: "put 10 000 files",
    unit: "files/s",
    rounds: 2,
    peers: contenders,
    ours: () => {
      rmSync(join(inside, "ours-tree"), { recursive: true, force: true });
      return filesPerSecond(async () => void (await guest.files.put(tree, join(inside, "ours-tree"))));
    },
  });
}

function hellos(guest: Guest): Promise<Row> {
  return compare({
    name: "connect and hello",
    unit: "ms",
    rounds: 3,
    peers: [],
    ours: async () => {
      const took = await seconds(async () => {
        for (let count = 0; count < hellosARound; count++) await guest.hello();
      });
      return (took * 1000) / hellosARound;
    },
  });
}

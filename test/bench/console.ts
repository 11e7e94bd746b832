/** The console beside qemu-guest-agent (base64 in JSON) and beside the product's own shell and control services. */
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Console } from "#host/clients/console/console.ts";
import { Guest } from "#host/guest.ts";
import { ports } from "#protocol/ports.ts";
import { startLocalAgent } from "../shell/agent.ts";
import { type Contender, type ContractBench, compare, median } from "./harness.ts";
import { QgaPeer } from "./qga-peer.ts";

const mib = 1024 * 1024;
const fileMib = 64;
/** one frame holds a little less than the file */
const writeBytes = 32 * mib;
const commandsARound = 20;

async function timed(work: () => Promise<unknown>): Promise<number> {
  const started = performance.now();
  await work();
  return performance.now() - started;
}

/** median milliseconds of one of many runs */
async function latency(work: () => Promise<unknown>): Promise<number> {
  const all: number[] = [];
  for (let run = 0; run < commandsARound; run += 1) all.push(await timed(work));
  return median(all);
}

const rate = async (work: () => Promise<unknown>) => fileMib / ((await timed(work)) / 1000);

function expectSame(what: string, got: unknown, wanted: unknown): void {
  if (got !== wanted) throw new Error(`${what}: ${String(got)} instead of ${String(wanted)}`);
}

export async function benchConsole(): Promise<ContractBench> {
  await using cleanup = new AsyncDisposableStack();
  // In memory where there is such a place: the disk is nobody's merit.
  const directory = mkdtempSync(join(existsSync("/dev/shm") ? "/dev/shm" : tmpdir(), "vmapp-bench-"));
  cleanup.defer(() => rmSync(directory, { recursive: true, force: true }));
  const agent = await startLocalAgent();
  cleanup.defer(() => agent.stop());
  const guest = Guest.connect(agent.target);
  const files = guest.files;
  cleanup.use(files);
  const session = cleanup.use(await Console.open({ server: { connection: await guest.dial(ports.console) } }));
  const notes: string[] = [];
  let qga: QgaPeer | undefined;
  if (QgaPeer.lacking === undefined) {
    const started = await QgaPeer.start();
    cleanup.defer(() => started.stop());
    qga = started;
  } else {
    notes.push(QgaPeer.lacking);
  }
  const byQga = (measure: (peer: QgaPeer) => Promise<number>, aim?: Contender["aim"]): Contender[] => {
    const peer = qga;
    return peer === undefined ? [] : [{ name: "qemu-guest-agent", measure: () => measure(peer), ...(aim && { aim }) }];
  };

  const path = join(directory, "file");
  const content = Buffer.alloc(fileMib * mib);
  for (let index = 0; index < content.length; index += 251) content[index] = index;
  await Bun.write(path, content);

  const rows = [
    await compare({
      name: "run true",
      unit: "ms",
      rounds: 5,
      ours: () => latency(async () => expectSame("console", (await session.exec(["/bin/true"])).code, 0)),
      peers: [
        ...byQga((peer) => latency(async () => expectSame("qga", await peer.exec("/bin/true", []), 0))),
        {
          name: "our shell service",
          measure: () => latency(async () => expectSame("shell", (await guest.exec(["/bin/true"])).code, 0)),
        },
        { name: "plain spawn", measure: () => latency(() => Bun.spawn(["/bin/true"]).exited) },
      ],
    }),
    await compare({
      name: `read a file of ${fileMib} MiB`,
      unit: "MiB/s",
      rounds: 5,
      ours: () =>
        rate(async () => {
          let bytes = 0;
          for await (const piece of session.readFile(path)) bytes += piece.length;
          expectSame("console", bytes, content.length);
        }),
      peers: [
        ...byQga((peer) => rate(async () => expectSame("qga", (await peer.read(path)).length, content.length)), {
          atLeast: 1.5,
        }),
        {
          name: "our control service",
          measure: () =>
            rate(async () =>
              expectSame("control", (await files.read(path, { maxBytes: content.length })).length, content.length),
            ),
        },
        {
          name: "our shell service (cat)",
          measure: () =>
            rate(async () => expectSame("shell", (await guest.exec(["cat", path])).stdout.length, content.length)),
        },
      ],
    }),
    await compare({
      name: `write a file of ${fileMib} MiB`,
      unit: "MiB/s",
      rounds: 5,
      ours: () =>
        rate(async () => {
          await session.write(`${path}.console`, content.subarray(0, writeBytes));
          const size = await session.write(`${path}.console`, content.subarray(writeBytes), { offset: writeBytes });
          expectSame("console", size, content.length);
        }),
      peers: [
        ...byQga((peer) => rate(() => peer.write(`${path}.qga`, content)), { atLeast: 1.5 }),
        {
          name: "our control service",
          measure: () => rate(() => files.write(`${path}.control`, content)),
        },
        {
          name: "our shell service (cat)",
          measure: () =>
            rate(async () =>
              expectSame("shell", (await guest.exec(["sh", "-c", `cat > ${path}.shell`], { stdin: content })).code, 0),
            ),
        },
      ],
    }),
  ];
  return { contract: "console", rows, notes };
}

/**
 * The app bridge: the forwarder beside socat between the same two sockets, here and inside a guest; and the four figures
 * of the protocol with the forwarder and without it.
 */
import { type ChildProcess, execFile, execFileSync, spawn, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { type BridgeFigures, measureBridge } from "#host/clients/bridge/measure.ts";
import { Guest } from "#host/guest.ts";
import { startVm } from "#host/vm/start.ts";
import type { Vm } from "#host/vm/vm.ts";
import { type ContractBench, compare, median, type Row } from "./harness.ts";

const root = resolve(import.meta.dir, "../..");
const rounds = 7;
const protocolRounds = 3;
const trips = 5000;
/** so much that the processors which the three programs fall on by chance change several times */
const bulkBytes = 4 * 1024 * 1024 * 1024;
const guestTrips = 1000;
const guestBulkBytes = 128 * 1024 * 1024;
const run = promisify(execFile);

/** The three ways to an app that are measured, by the name of their sockets. */
interface Ways {
  readonly trip: (way: string) => Promise<number>;
  readonly bulk: (way: string, mode: "upload" | "download") => Promise<number>;
}

export async function benchBridge(): Promise<ContractBench> {
  await using cleanup = new AsyncDisposableStack();
  const directory = mkdtempSync(join(tmpdir(), "vmapp-bench-bridge-"));
  cleanup.defer(() => rmSync(directory, { recursive: true, force: true }));
  const start = (program: string, args: readonly string[], env: Record<string, string> = {}): ChildProcess => {
    const child = spawn(program, args, { stdio: ["ignore", "ignore", "inherit"], env: { ...process.env, ...env } });
    cleanup.defer(async () => {
      const ended = new Promise((resolveEnd) => child.once("exit", resolveEnd));
      if (child.exitCode === null && child.kill("SIGKILL")) await ended;
    });
    return child;
  };
  const rows: Row[] = [];
  const notes: string[] = [];
  const socat = spawnSync("socat", ["-V"]).status === 0;
  if (!socat) notes.push("socat is not installed: nothing to compare the forwarder with");

  const app = join(directory, "app.sock");
  start(process.execPath, [join(root, "test/bench/bridge-peer.ts"), "serve", app]);
  start(process.execPath, [join(root, "init/main.ts"), "bridge", "--listen", `unix:${directory}`, "--socket", app]);
  if (socat)
    start("socat", ["-b", "262144", `UNIX-LISTEN:${join(directory, "socat.sock")},fork`, `UNIX-CONNECT:${app}`]);
  for (const name of ["app.sock", "1024.sock", ...(socat ? ["socat.sock"] : [])]) await appears(join(directory, name));
  const here: Ways = {
    trip: (way) => measure(join(directory, way), "trips", trips, "medianMicroseconds"),
    bulk: (way, mode) => measure(join(directory, way), mode, bulkBytes, "bytesPerSecond").then((rate) => rate / 1e6),
  };
  // What runs for a day has been compiled by the engine; a second of work gets there.
  await here.trip("1024.sock");
  rows.push(...(await forwarderRows("", here, socat)));
  rows.push(...(await protocolRows(directory, start)));

  if (existsSync(join(root, "dist/image/x64/manifest.json")) && socat) {
    const vm = await startVm({ name: "bench-bridge", image: join(root, "dist/image/x64"), remove: true });
    cleanup.use(vm);
    rows.push(...(await forwarderRows("in a guest: ", await guestWays(vm, directory), socat)));
  } else {
    notes.push("not measured in a guest: there is no image, or no socat");
  }
  return { contract: "app bridge", rows, notes };
}

async function forwarderRows(where: string, ways: Ways, socat: boolean): Promise<Row[]> {
  const direct = (measureDirect: () => Promise<number>) => ({ name: "direct", measure: measureDirect });
  const rows = [
    await compare({
      name: `${where}round trip of 100 bytes`,
      unit: "µs",
      rounds,
      ours: () => ways.trip("1024.sock"),
      peers: [
        ...(socat ? [{ name: "socat -b 262144", measure: () => ways.trip("socat.sock"), aim: { atMost: 1 } }] : []),
        direct(() => ways.trip("app.sock")),
      ],
    }),
  ];
  for (const [mode, title] of [
    ["upload", "bulk to the app"],
    ["download", "bulk from the app"],
  ] as const) {
    rows.push(
      await compare({
        name: `${where}${title}`,
        unit: "MB/s",
        rounds,
        ours: () => ways.bulk("1024.sock", mode),
        peers: [
          ...(socat
            ? [{ name: "socat -b 262144", measure: () => ways.bulk("socat.sock", mode), aim: { atLeast: 1.5 } }]
            : []),
          direct(() => ways.bulk("app.sock", mode)),
        ],
      }),
    );
  }
  return rows;
}

/** The four figures of the protocol, host end to SDK and back. */
async function protocolRows(
  directory: string,
  start: (program: string, args: readonly string[], env?: Record<string, string>) => ChildProcess,
): Promise<Row[]> {
  const [forwarded, direct] = [join(directory, "forwarded"), join(directory, "direct")];
  for (const each of [forwarded, direct]) mkdirSync(each);
  const core = join(root, "examples/bench/main.ts");
  const socket = join(directory, "core.sock");
  start(process.execPath, [core], { VMAPP_SOCKET: socket });
  start(process.execPath, [core], { VMAPP_SOCKET: join(direct, "1024.sock") });
  start(process.execPath, [join(root, "init/main.ts"), "bridge", "--listen", `unix:${forwarded}`, "--socket", socket]);
  for (const path of [join(forwarded, "1024.sock"), join(direct, "1024.sock"), socket]) await appears(path);
  const figures = async (target: string): Promise<BridgeFigures> => {
    await using session = await Guest.connect(`unix:${target}`).app();
    return await measureBridge(session);
  };
  const ours: BridgeFigures[] = [];
  const bare: BridgeFigures[] = [];
  for (let round = 0; round <= protocolRounds; round += 1) {
    const [first, second] = [await figures(forwarded), await figures(direct)];
    // The first round compiles what the two have in common, at the cost of whichever is measured first.
    if (round === 0) continue;
    ours.push(first);
    bare.push(second);
  }
  const row = (name: string, unit: string, field: keyof BridgeFigures): Row => ({
    name,
    unit,
    ours: median(ours.map((figure) => figure[field])),
    peers: [{ name: "without the forwarder", value: median(bare.map((figure) => figure[field])) }],
  });
  return [
    row("one call after the other", "µs", "callMicroseconds"),
    row("1 000 calls at once", "calls/s", "callsPerSecond"),
    row("replies of 8 MiB", "MiB/s", "replyMebibytesPerSecond"),
    row("events", "messages/s", "eventsPerSecond"),
  ];
}

/** The same peers inside a guest; each measurement is one command there. */
async function guestWays(vm: Vm, directory: string): Promise<Ways> {
  const place = "/tmp/bench";
  const bundle = join(directory, "peer.js");
  execFileSync(process.execPath, [
    "build",
    join(root, "test/bench/bridge-peer.ts"),
    "--target=bun",
    `--outfile=${bundle}`,
  ]);
  await vm.guest.files.put(bundle, `${place}/peer.js`);
  await vm.guest.files.put(packSocat(directory), `${place}/socat.tar`);
  const peer = `BUN_BE_BUN=1 /opt/vmapp/bin/vmapp-init ${place}/peer.js`;
  const shell = async (script: string): Promise<string> => {
    const { code, stdout, stderr } = await vm.guest.exec(["sh", "-c", script]);
    if (code !== 0) throw new Error(`in the guest, exit ${code}: ${stderr}`);
    return stdout.toString();
  };
  const background = (command: string) => shell(`setsid sh -c '${command}' </dev/null >/dev/null 2>&1 &`);
  await shell(`cd ${place} && tar -xf socat.tar`);
  await background(`${peer} serve ${place}/app.sock`);
  await background(`/opt/vmapp/bin/vmapp-init bridge --listen unix:${place} --socket ${place}/app.sock`);
  const socat = `${place}/socat/loader --library-path ${place}/socat ${place}/socat/socat`;
  await background(`${socat} -b 262144 UNIX-LISTEN:${place}/socat.sock,fork UNIX-CONNECT:${place}/app.sock`);
  for (const name of ["app.sock", "1024.sock", "socat.sock"])
    await shell(`for i in $(seq 100); do [ -S ${place}/${name} ] && exit; usleep 100000; done; exit 1`);
  const value = async (way: string, mode: string, count: number, field: string): Promise<number> =>
    JSON.parse(await shell(`${peer} measure ${place}/${way} ${mode} ${count}`))[field];
  const ways: Ways = {
    trip: (way) => value(way, "trips", guestTrips, "medianMicroseconds"),
    bulk: async (way, mode) => (await value(way, mode, guestBulkBytes, "bytesPerSecond")) / 1e6,
  };
  for (let round = 0; round < 5; round += 1) await ways.trip("1024.sock");
  return ways;
}

/** This machine's socat with its libraries and loader, for a guest that has neither. */
function packSocat(directory: string): string {
  const staging = join(directory, "socat");
  mkdirSync(staging);
  const program = execFileSync("sh", ["-c", "command -v socat"]).toString().trim();
  const libraries = execFileSync("ldd", [program])
    .toString()
    .matchAll(/(?:=> |^\s+)(\/\S+)/gm);
  const copy = (from: string, name: string) => writeFileSync(join(staging, name), readFileSync(from), { mode: 0o755 });
  copy(program, "socat");
  for (const [, path] of libraries) {
    if (path === undefined) continue;
    const name = path.split("/").at(-1) as string;
    copy(path, name.startsWith("ld-linux") ? "loader" : name);
  }
  const archive = join(directory, "socat.tar");
  execFileSync("tar", ["-cf", archive, "-C", directory, "socat"]);
  return archive;
}

async function measure(path: string, mode: string, count: number, field: string): Promise<number> {
  const { stdout } = await run(process.execPath, [
    join(root, "test/bench/bridge-peer.ts"),
    "measure",
    path,
    mode,
    String(count),
  ]);
  return JSON.parse(stdout)[field];
}

async function appears(path: string): Promise<void> {
  for (let patience = 1000; !existsSync(path); patience -= 1) {
    if (patience === 0) throw new Error(`${path} did not appear within 10 s`);
    await new Promise((resolveWait) => setTimeout(resolveWait, 10));
  }
}

/** Both ends of the bridge against lines that are almost right: whatever comes, the next call is answered. */
import { afterEach, expect, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { AppSession } from "#host/clients/bridge/session.ts";
import { dial } from "#host/transport/dial.ts";
import { HostLines, startCore } from "../integration/bridge-core-process.ts";
import { waitUntil } from "../integration/bridge-forwarder.ts";

const seed = Number(process.env.VMAPP_FUZZ_SEED ?? Date.now() % 1_000_000_000);
const count = process.env.VMAPP_FULL === "1" ? 100_000 : 3_000;
/** calls are checked after so many bad lines */
const batch = 100;

let state = seed >>> 0;
function random(below: number): number {
  state = (Math.imul(state ^ (state >>> 15), 0x2c1b3c6d) + 0x9e3779b9) >>> 0;
  return state % below;
}

const pick = <T>(items: readonly T[]): T => items[random(items.length)] as T;

const values = [
  "1",
  "-1",
  "1e99",
  "null",
  "true",
  '""',
  '"x"',
  "[]",
  "{}",
  '[[["x"]]]',
  '{"__proto__":{"t":1}}',
  "1.5",
];
const fields = [
  "t",
  "id",
  "win",
  "channel",
  "args",
  "op",
  "params",
  "result",
  "error",
  "event",
  "data",
  "folders",
  "app",
];

function line(types: readonly string[]): Buffer {
  const members = Array.from({ length: random(6) }, () => `"${pick(fields)}":${pick(values)}`);
  const text = `{${[`"t":"${pick(types)}"`, ...members].join(",")}}`;
  const bytes = Buffer.from(`${text}\n`);
  // A newline inside only makes two lines of it.
  if (random(4) === 0) bytes[random(bytes.length - 1)] = random(256);
  return bytes;
}

const cleanups: (() => Promise<void> | void)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0)) await cleanup();
});

test(`the SDK answers after any line of a host (seed ${seed})`, async () => {
  const core = await startCore({ env: { CORE_STAYS: "1" } });
  cleanups.push(() => core.stop());
  const host = await core.connect();
  await host.start();
  const types = ["init", "reply", "invoke", "send", "window", "stream", "ready"];
  for (let sent = 0; sent < count; sent += batch) {
    for (let index = 0; index < batch; index += 1) host.raw(line(types));
    expect(await host.invoke(1_000_000 + sent, "echo", sent)).toMatchObject({ result: [sent] });
  }
}, 120_000);

test(`the host end goes on after any line of a core (seed ${seed})`, async () => {
  const directory = mkdtempSync(join(tmpdir(), "vmapp-fuzz-"));
  cleanups.push(() => rmSync(directory, { recursive: true, force: true }));
  const cores: HostLines[] = [];
  const server = createServer((socket) => {
    const core = new HostLines(socket);
    cores.push(core);
    core.raw('{"t":"ready"}\n');
  });
  cleanups.push(() => {
    for (const core of cores) core.close();
    server.close();
  });
  await new Promise<void>((resolve) => server.listen(join(directory, "1024.sock"), resolve));
  const session = await AppSession.open(
    (signal) => dial({ target: { kind: "unix", directory }, port: 1024, signal }),
    // A quit that is granted ends the session, which is not what is looked for.
    { permissions: ["window.create", "window.close", "dialog.open", "dialog.message"] },
  );
  cleanups.push(() => session.close());
  const core = cores[0] as HostLines;
  const types = ["ready", "request", "result", "emit", "stream", "init"];
  let problems = 0;
  session.on("problem", () => {
    problems += 1;
  });
  for (let sent = 0; sent < count; sent += batch) {
    for (let index = 0; index < batch; index += 1) core.raw(line(types));
    const call = session.invoke("still-here", sent);
    // A bad line may bear the call's id and so answer it; another call is then as good.
    const { id } = await core.next(({ channel, args }) => channel === "still-here" && (args as number[])[0] === sent);
    core.send({ t: "result", id, result: sent });
    await call.catch(() => {});
    expect(session.state).toBe("ready");
  }
  await waitUntil(() => problems > count / 10, "the bad lines to be reported");
  expect(cores).toHaveLength(1);
}, 120_000);

import { afterEach, expect, test } from "bun:test";
import { chmodSync, existsSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { AgentUpdates } from "#init/agent-updates.ts";
import { UpdateFiles } from "#init/update-files.ts";
import { decodeRejected, encodeMarker, markerNames, programName } from "#protocol/update-markers.ts";
import type { Log } from "#sys/log.ts";

const self: readonly [string, ...string[]] = ["/opt/vmapp/bin/vmapp-init"];
const A = "a".repeat(64);
const B = "b".repeat(64);
const quiet: Log = { debug() {}, info() {}, warn() {}, error() {} } as Log;

const directories: string[] = [];
afterEach(() => {
  for (const directory of directories.splice(0)) rmSync(directory, { recursive: true, force: true });
});

interface Bench {
  readonly directory: string;
  readonly updates: AgentUpdates;
  /** what was asked of the supervisor, e.g. `replace /opt/…` */
  readonly calls: string[];
  /** stores a program and offers it */
  offer(sha256: string): void;
  /** what the program on trial does */
  confirm(): void;
  has(name: string): boolean;
  rejected(): readonly string[];
  path(sha256: string): string;
}

function bench({
  directory = mkdtempSync(join(tmpdir(), "vmapp-updates-")),
  trialMs = 60_000,
  start = true,
  base = "build-1",
} = {}): Bench {
  directories.push(directory);
  const calls: string[] = [];
  const updates = new AgentUpdates({ files: new UpdateFiles(directory), self, base, log: quiet, trialMs });
  const path = (sha256: string): string => join(directory, programName(sha256));
  const setUp: Bench = {
    directory,
    updates,
    calls,
    path,
    offer: (sha256) => {
      writeFileSync(path(sha256), "program", { mode: 0o755 });
      writeFileSync(join(directory, markerNames.offered), encodeMarker({ sha256, size: 7, base }));
    },
    confirm: () => renameSync(join(directory, markerNames.pending), join(directory, markerNames.confirmed)),
    has: (name) => existsSync(join(directory, name)),
    rejected: () =>
      existsSync(join(directory, "rejected")) ? decodeRejected(readFileSync(join(directory, "rejected"), "utf8")) : [],
  };
  if (start) {
    updates.started({
      handOver: ([executable]) => calls.push(`handOver ${executable}`),
      replace: ([executable]) => calls.push(`replace ${executable}`),
    });
  }
  return setUp;
}

test("without updates the agent is this executable itself, and its ends are nobody's business", () => {
  const { updates, calls } = bench();
  expect(updates.executable).toEqual(self);
  updates.look();
  for (let run = 0; run < 10; run++) expect(updates.ended(10)).toBe(false);
  expect(calls).toEqual([]);
});

test("an offered program gets its trial, and is the agent from its first answered hello on", () => {
  const { updates, calls, offer, confirm, has, path, directory } = bench();
  offer(A);
  updates.look();
  expect(calls).toEqual([`handOver ${path(A)}`]);
  expect(has("pending")).toBe(true);
  confirm();
  expect(updates.ended(5_000)).toBe(false);
  expect(calls).toHaveLength(1);
  expect(bench({ directory }).updates.executable).toEqual([path(A)]);
});

test("a program that ends on trial is given up at once: the one before it runs again and it is never taken again", () => {
  const { updates, calls, offer, has, path, rejected } = bench();
  offer(A);
  updates.look();
  expect(updates.ended(20)).toBe(true);
  expect(calls).toEqual([`handOver ${path(A)}`, `replace ${self[0]}`]);
  expect(rejected()).toEqual([A]);
  expect([has("pending"), has("offered"), existsSync(path(A))]).toEqual([false, false, false]);
});

test("a program that hangs is given up when its time is over", async () => {
  const { updates, calls, offer, rejected } = bench({ trialMs: 30 });
  offer(A);
  updates.look();
  await Bun.sleep(100);
  expect(calls.at(-1)).toBe(`replace ${self[0]}`);
  expect(rejected()).toEqual([A]);
});

test("a program that was confirmed in time is left alone when the time is over", async () => {
  const { updates, calls, offer, confirm } = bench({ trialMs: 30 });
  offer(A);
  updates.look();
  confirm();
  await Bun.sleep(100);
  expect(calls).toHaveLength(1);
});

test("after a bad second update the first one runs again, not the executable's own", () => {
  const { updates, calls, offer, confirm, path, has } = bench();
  offer(A);
  updates.look();
  confirm();
  offer(B);
  updates.look();
  expect(updates.ended(20)).toBe(true);
  expect(calls).toEqual([`handOver ${path(A)}`, `handOver ${path(B)}`, `replace ${path(A)}`]);
  expect(has("confirmed")).toBe(true);
});

test("a program offered while another is on trial waits until that one is confirmed", () => {
  const { updates, calls, offer, confirm, path } = bench();
  offer(A);
  updates.look();
  offer(B);
  updates.look();
  expect(calls).toHaveLength(1);
  confirm();
  updates.look();
  expect(calls.at(-1)).toBe(`handOver ${path(B)}`);
});

test("a trial that the machine's end interrupted counts as failed", () => {
  const before = bench();
  before.offer(A);
  before.updates.look();
  const after = bench({ directory: before.directory });
  expect(after.updates.executable).toEqual(self);
  expect(after.rejected()).toEqual([A]);
  expect(after.calls).toEqual([]);
});

test("a program that was offered just before the machine's end gets its trial after it", () => {
  const before = bench({ start: false });
  before.offer(A);
  const after = bench({ directory: before.directory });
  expect(after.calls).toEqual([`handOver ${after.path(A)}`]);
});

test.each([
  ["is missing", (path: string) => rmSync(path)],
  ["others may write to", (path: string) => chmodSync(path, 0o777)],
  ["is not executable", (path: string) => chmodSync(path, 0o644)],
  ["was cut off", (path: string) => writeFileSync(path, "pro")],
])("a stored program that %s is neither tried nor started", (_, spoil) => {
  const first = bench();
  first.offer(A);
  spoil(first.path(A));
  first.updates.look();
  expect(first.calls).toEqual([]);
  expect(first.rejected()).toEqual([A]);
  const second = bench();
  second.offer(B);
  second.updates.look();
  second.confirm();
  spoil(second.path(B));
  expect(bench({ directory: second.directory }).updates.executable).toEqual(self);
});

test("a confirmed program that keeps ending at once is given up after five times", () => {
  const { updates, calls, offer, confirm, rejected } = bench();
  offer(A);
  updates.look();
  confirm();
  expect([1, 2, 3, 4].map(() => updates.ended(100))).toEqual([false, false, false, false]);
  expect(updates.ended(100)).toBe(true);
  expect(calls.at(-1)).toBe(`replace ${self[0]}`);
  expect(rejected()).toEqual([A]);
});

test("markers that are no markers change nothing", () => {
  const { updates, calls, directory } = bench();
  for (const text of ["", "junk", '{"sha256":"../../etc/passwd","size":3,"base":"build-1"}']) {
    writeFileSync(join(directory, markerNames.offered), text);
    updates.look();
  }
  expect(calls).toEqual([]);
});

test("a program that was stored over another image's agent is left behind, and may be sent again", () => {
  const before = bench();
  before.offer(A);
  before.updates.look();
  before.confirm();
  const after = bench({ directory: before.directory, base: "build-2" });
  expect(after.updates.executable).toEqual(self);
  expect([after.has("confirmed"), existsSync(after.path(A))]).toEqual([false, false]);
  expect(after.rejected()).toEqual([]);
});

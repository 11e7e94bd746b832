import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { type ChildProcess, spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { claimName } from "#host/vm/claim.ts";
import {
  hostBootId,
  identifyProcess,
  isProcessAlive,
  type ProcessIdentity,
  waitForProcessEnd,
} from "#host/vm/process-identity.ts";
import { currentState, listVmRecords, readVmRecord, type VmRecord, writeVmRecord } from "#host/vm/state.ts";

let root: string;
const children: ChildProcess[] = [];

beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "vmapp-claim-"));
});
afterEach(() => {
  for (const child of children.splice(0)) child.kill("SIGKILL");
  rmSync(root, { recursive: true, force: true });
});

/** A process that lives until the test ends. */
function startProcess(): ProcessIdentity {
  const child = spawn("sleep", ["300"], { stdio: "ignore" });
  children.push(child);
  const identity = child.pid === undefined ? undefined : identifyProcess(child.pid);
  if (identity === undefined) throw new Error("sleep does not run");
  return identity;
}

function own(): ProcessIdentity {
  const identity = identifyProcess(process.pid);
  if (identity === undefined) throw new Error("no /proc");
  return identity;
}

function record(fields: Partial<VmRecord> = {}): VmRecord {
  return {
    format: 1,
    name: "a",
    id: randomUUID(),
    state: "running",
    created: "2026-01-01T00:00:00.000Z",
    bootId: hostBootId(),
    owner: own(),
    image: "/img",
    memoryMib: 512,
    cpus: 1,
    detached: false,
    remove: false,
    ...fields,
  };
}

/** An owner that has ended: its pid may be someone else's by now, so the start time decides. */
function deadOwner(): ProcessIdentity {
  return { pid: process.pid, startTicks: own().startTicks - 1 };
}

function leave(fields: Partial<VmRecord>): void {
  mkdirSync(join(root, "a"));
  writeVmRecord(join(root, "a"), record(fields));
}

describe("claiming a name", () => {
  test("makes the directory with the record in it", async () => {
    const mine = record();
    const directory = await claimName(root, mine);
    expect(directory).toBe(join(root, "a"));
    expect(readVmRecord(directory)).toEqual(mine);
    expect(readdirSync(root)).toEqual(["a"]);
  });

  test("succeeds for one of many who try at the same time", async () => {
    const claims = await Promise.allSettled(Array.from({ length: 20 }, () => claimName(root, record())));
    expect(claims.filter((claim) => claim.status === "fulfilled")).toHaveLength(1);
    expect(readdirSync(root)).toEqual(["a"]);
  });

  test("is refused while the owner lives, and leaves its directory alone", async () => {
    const theirs = record();
    await claimName(root, theirs);
    await expect(claimName(root, record())).rejects.toMatchObject({ code: "name_taken" });
    expect(readVmRecord(join(root, "a"))).toEqual(theirs);
    expect(readdirSync(root)).toEqual(["a"]);
  });

  test("cleans a directory whose owner is gone, and ends its helpers", async () => {
    const qemu = startProcess();
    const vsockDevice = startProcess();
    leave({ owner: deadOwner(), qemu, vsockDevice });
    writeFileSync(join(root, "a", "stale"), "");
    await claimName(root, record());
    expect(existsSync(join(root, "a", "stale"))).toBe(false);
    expect(await waitForProcessEnd(qemu, 1000)).toBe(true);
    expect(await waitForProcessEnd(vsockDevice, 1000)).toBe(true);
  });

  test("does not touch a process that merely has the pid of a helper", async () => {
    const bystander = startProcess();
    leave({ owner: deadOwner(), qemu: { ...bystander, startTicks: bystander.startTicks + 5 } });
    await claimName(root, record());
    expect(isProcessAlive(bystander)).toBe(true);
  });

  test("does not touch processes of a record from another boot of the host", async () => {
    const bystander = startProcess();
    leave({ bootId: "an earlier one", qemu: bystander });
    await claimName(root, record());
    expect(isProcessAlive(bystander)).toBe(true);
  });

  test.each([
    ["damaged", "{"],
    ["of another format", '{"format":9}'],
    ["naming pid 0", JSON.stringify({ ...record(), qemu: { pid: 0, startTicks: 0 } })],
  ])("takes a directory whose record is %s for a leftover", async (_what, text) => {
    mkdirSync(join(root, "a"));
    writeFileSync(join(root, "a", "vm.json"), text);
    await claimName(root, record());
    expect(readVmRecord(join(root, "a"))?.state).toBe("running");
  });

  test("replaces a link at the name without following it", async () => {
    const elsewhere = mkdtempSync(join(tmpdir(), "vmapp-elsewhere-"));
    try {
      writeFileSync(join(elsewhere, "precious"), "");
      symlinkSync(elsewhere, join(root, "a"));
      await claimName(root, record());
      expect(readdirSync(elsewhere)).toEqual(["precious"]);
      expect(readVmRecord(join(root, "a"))?.name).toBe("a");
    } finally {
      rmSync(elsewhere, { recursive: true, force: true });
    }
  });
});

describe("the state of a VM", () => {
  test("is what its owner wrote while that lives, and dead when it is gone without a word", () => {
    expect(currentState(record())).toBe("running");
    expect(currentState(record({ owner: deadOwner() }))).toBe("dead");
    expect(currentState(record({ owner: deadOwner(), state: "stopped" }))).toBe("stopped");
    expect(currentState(record({ bootId: "an earlier one" }))).toBe("dead");
  });

  test("lists only records that stand under their own name", () => {
    leave({});
    mkdirSync(join(root, "b"));
    writeVmRecord(join(root, "b"), record({ name: "a" }));
    mkdirSync(join(root, ".new-x"));
    expect(listVmRecords(root).map(({ name }) => name)).toEqual(["a"]);
  });
});

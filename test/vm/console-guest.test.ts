import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { Console, type ConsoleOptions } from "#host/clients/console/console.ts";
import { dial } from "#host/transport/dial.ts";
import type { Vm } from "#host/vm/vm.ts";
import { maxBlobBytes, maxStreamBytes } from "#protocol/console/limits.ts";
import { ports } from "#protocol/ports.ts";
import { type BaseNames, listChanges, makeChanges } from "#test/console/changes.ts";
import { bootTimeoutMs, sharedVm, startTestVm } from "./fixture.ts";

setDefaultTimeout(180_000);

const text = (bytes: Uint8Array) => Buffer.from(bytes).toString();
const bytes = (value: string) => Buffer.from(value);
const rounds = process.env.VMAPP_FULL === "1" ? 500 : 100;

async function open(vm: Vm, options: Omit<ConsoleOptions, "server"> = {}): Promise<Console> {
  return Console.open({ server: { connection: await dial({ target: vm.target, port: ports.console }) }, ...options });
}

const inShell = (session: Console) => async (line: string) => {
  const run = await session.exec(["sh", "-c", line]);
  if (run.code !== 0) throw new Error(`${line} ended with ${run.code}: ${text(run.stderr)}`);
  return text(run.stdout);
};

describe("the console of a guest", () => {
  let vm: Vm;
  let session: Console;
  let sh: (line: string) => Promise<string>;
  beforeAll(async () => {
    vm = await sharedVm();
    session = await open(vm);
    sh = inShell(session);
    await sh("mkdir -p /root/console");
    await session.exec(["cd", "/root/console"]);
  }, bootTimeoutMs);
  afterAll(async () => {
    await session?.exec(["rm", "-rf", "/root/console"]);
    await session?.close();
  });

  test("stands at / and gives commands nothing but PATH and PWD", async () => {
    await using own = await open(vm);
    expect(own.cwd).toBe("/");
    const env = (await inShell(own)("env")).split("\n");
    expect(env).toContain("PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
    expect(env).toContain("PWD=/");
    expect(env.filter((line) => /^(HOME|USER|VMAPP|TERM)/.test(line))).toEqual([]);
  });

  test("hands the agent's protection from the OOM killer on to no command, however soon it forks", async () => {
    for (let round = 0; round < 20; round += 1) expect(await sh("(cat /proc/self/oom_score_adj)")).toBe("0\n");
  });

  test("holds an answer until the streams end, unless the client sets a timeout", async () => {
    expect(await sh("echo hi; sleep 30 >/dev/null 2>&1 &")).toBe("hi\n");
    expect(await sh("echo hi; setsid sleep 30 >/dev/null 2>&1 &")).toBe("hi\n");
    await expect(session.exec(["sh", "-c", "echo hi; sleep 31 &"], { timeoutMs: 1000 })).rejects.toMatchObject({
      code: -32000,
    });
    expect(await sh("sleep 1 & echo waits")).toBe("waits\n");
  });

  test(`loses no byte at the end of a command's output, ${rounds} times`, async () => {
    for (let round = 0; round < rounds; round++) {
      const { stdout, code } = await session.exec(["sh", "-c", "head -c 300000 /dev/zero; echo END"]);
      expect([stdout.length, text(stdout.subarray(-4)), code]).toEqual([300_004, "END\n", 0]);
    }
  });

  test("leaves nothing of a command's group alive after its timeout", async () => {
    for (const line of ["sleep 311 & wait", "sleep 311 & sleep 311", "(trap '' TERM HUP; sleep 311) & wait"]) {
      await expect(session.exec(["sh", "-c", line], { timeoutMs: 500 })).rejects.toMatchObject({ code: -32000 });
      expect(await sh("sleep 0.5; ps | grep 'sleep [3]11' || true")).toBe("");
    }
  });

  test("cuts 70 000 000 bytes of output, says so, and goes on", async () => {
    const run = await session.exec(["sh", "-c", "head -c 70000000 /dev/zero"]);
    expect([run.truncated, run.stdout.length, run.code]).toEqual([true, maxStreamBytes, 0]);
    expect(run.stdout.every((byte) => byte === 0)).toBe(true);
    expect(await sh("echo on")).toBe("on\n");
  });

  test("refuses FIFOs and devices at once and reads the kernel's files whole", async () => {
    await sh("mkfifo fifo");
    for (const path of ["fifo", "/dev/zero", "/dev/vda"]) {
      await expect(session.read(path)).rejects.toMatchObject({ code: -32007 });
    }
    const status = await session.read("/proc/self/status");
    expect([text(status.data).startsWith("Name:"), status.size]).toEqual([true, status.data.length]);
    expect(text((await session.read("/sys/block/vda/serial")).data)).toStartWith("vmapp-");
    expect(text((await session.read("/proc/sys/kernel/ostype")).data)).toBe("Linux\n");
    await session.write("/proc/sys/kernel/domainname", bytes("console\n"));
    expect(await sh("cat /proc/sys/kernel/domainname")).toBe("console\n");
  });

  test("reads a sparse file of 5 GiB in pieces", async () => {
    await sh("truncate -s 5G sparse; echo middle | dd of=sparse bs=1 seek=3000000000 conv=notrunc 2>/dev/null");
    const size = 5 * 1024 ** 3;
    const first = await session.read("sparse");
    expect([first.data.length, first.size]).toEqual([maxBlobBytes, size]);
    expect(await session.read("sparse", { offset: 3_000_000_000, len: 7 })).toEqual({ data: bytes("middle\n"), size });
    expect(await session.read("sparse", { offset: size - 3, len: 100 })).toEqual({ data: Buffer.alloc(3), size });
    expect(await session.read("sparse", { offset: size })).toEqual({ data: Buffer.alloc(0), size });
  });

  test("writes beyond the end, and finds a full disk and a read-only one", async () => {
    expect(await session.write("gap", bytes("ab"))).toBe(2);
    expect(await session.write("gap", bytes("z"), { offset: 5 })).toBe(6);
    expect((await session.read("gap")).data).toEqual(bytes("ab\0\0\0z"));
    expect(await session.write("gap", new Uint8Array(0), { offset: 9 })).toBe(9);
    await sh("mkdir -p full; mount -t tmpfs -o size=1m tmpfs full");
    await expect(session.write("full/x", Buffer.alloc(2 * 1024 * 1024))).rejects.toMatchObject({
      code: -32007,
      message: expect.stringContaining("space"),
    });
    await sh("mount -o remount,ro full");
    await expect(session.write("full/y", bytes("x"))).rejects.toMatchObject({
      code: -32007,
      message: expect.stringContaining("read-only"),
    });
    await sh("umount full; rmdir full");
    await expect(session.write("/opt/vmapp/x", bytes("x"))).rejects.toMatchObject({ code: -32007 });
  });

  test("carries 60 MiB in one frame both ways", async () => {
    const large = Buffer.alloc(60 * 1024 * 1024);
    for (let index = 0; index < large.length; index += 4093) large[index] = index;
    expect(await session.write("large", large)).toBe(large.length);
    expect(Buffer.compare((await session.read("large")).data, large)).toBe(0);
    await sh("rm large");
  });

  for (const [name, speak] of [
    ["without a word", () => {}],
    ["after a start", (own: Console) => own.start()],
  ] as const) {
    test(`kills the command of a connection that is lost ${name}`, async () => {
      const connection = await dial({ target: vm.target, port: ports.console });
      const own = await Console.open({ server: { connection } });
      const lost = own.exec(["sh", "-c", "sleep 733; :"]);
      await sh("for i in $(seq 100); do ps | grep -q 'sleep [7]33' && exit 0; sleep 0.1; done; exit 1");
      await speak(own);
      connection.socket.destroy();
      await expect(lost).rejects.toMatchObject({ name: "ConsoleBrokenError" });
      await sh("for i in $(seq 100); do ps | grep -q 'sleep [7]33' || exit 0; sleep 0.1; done; exit 1");
    });
  }

  test("mounts the guest's own directories where a session names them, and no tag that nobody shares", async () => {
    await sh("mkdir -p project/out out; echo notes > project/notes");
    await using own = await open(vm, {
      mounts: [
        { source: "file:///root/console/project", guestPath: "/work", readOnly: true },
        { source: "file:///root/console/out", guestPath: "/work/out" },
      ],
    });
    expect(text((await own.read("/work/notes")).data)).toBe("notes\n");
    await expect(own.write("/work/x", bytes("x"))).rejects.toMatchObject({ code: -32007 });
    expect((await own.exec(["sh", "-c", "echo x > /work/x"])).code).not.toBe(0);
    expect(await own.write("/work/out/x", bytes("x"))).toBe(1);
    await own.stop();
    expect(await sh("grep -c ' /work' /proc/self/mountinfo || true")).toBe("0\n");
    await using other = await open(vm, { mounts: [{ source: "virtiofs://nobody", guestPath: "/work" }] });
    await expect(other.exec(["true"])).rejects.toMatchObject({ code: -32009 });
  });

  test("says that it snapshots, in the caps of the guest", () => {
    expect(vm.hello.caps).toContain("console.snapshot");
  });
});

const base: BaseNames = {
  fileDeleted: "/lib/terminfo/v/vt220",
  fileRenamed: "/lib/terminfo/v/vt100",
  directoryDeleted: "/lib/terminfo/t",
  directoryReplaced: "/lib/terminfo/x",
};

test(
  "a snapshot is restored into a fresh VM, the same file by file, and snapshots again to the same bytes",
  async () => {
    let wanted: string;
    let snapshot: Uint8Array;
    {
      const first = await startTestVm({ sessionDisk: { sizeMib: 256 } });
      const session = await open(first);
      const sh = inShell(session);
      await sh(makeChanges(base));
      wanted = await sh(listChanges(base));
      expect(wanted).toEndWith("one file\ngone\ngone\ngone\n");
      snapshot = await session.snapshot();
      expect(Buffer.compare(await session.snapshot(), snapshot)).toBe(0);
      await session.close();
      await first.stop();
    }
    const second = await startTestVm({ sessionDisk: { sizeMib: 256 }, snapshot });
    const session = await open(second);
    expect(await inShell(session)(listChanges(base))).toBe(wanted);
    expect(Buffer.compare(await session.snapshot(), snapshot)).toBe(0);
    await session.close();
    await second.stop();
  },
  2 * bootTimeoutMs,
);

test(
  "a snapshot that is no layer fails the boot, and the error says so",
  async () => {
    await expect(startTestVm({ snapshot: Buffer.alloc(2048, "no tar ") })).rejects.toThrow("restore the snapshot");
  },
  bootTimeoutMs,
);

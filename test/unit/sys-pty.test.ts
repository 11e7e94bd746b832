/** Ptys by themselves, without a session around them. */
import { afterEach, describe, expect, setDefaultTimeout, test } from "bun:test";
import { createHash, randomBytes } from "node:crypto";
import { openPty, type PtyChild, type PtyRequest } from "#sys/pty.ts";
import type { FdReader } from "#sys/stream-fd.ts";
import { descriptorsOf, eventually, isAlive, ptyMasters, zombiesOf } from "#test/shell/processes.ts";

setDefaultTimeout(60_000);

const env = { PATH: "/usr/sbin:/usr/bin:/sbin:/bin", TERM: "dumb" };
const open: PtyChild[] = [];
/** before the first pty, and after one that loaded the addon and started the poller */
let settledDescriptors: string[] | undefined;

function start(script: string, request: Partial<PtyRequest> = {}): PtyChild {
  const argv = ["sh", "-c", script];
  const child = openPty({ file: "sh", argv, env, cwd: "/", rows: 24, cols: 80, ...request });
  open.push(child);
  return child;
}

/** What a reader got until the end, or until `enough` says so. */
async function read(reader: FdReader, take: (bytes: Uint8Array) => boolean | undefined): Promise<void> {
  const buffer = new Uint8Array(65_536);
  for (;;) {
    const count = reader.tryRead(buffer, 0, buffer.length);
    if (count === 0) return;
    if (count < 0) await reader.readable();
    else if (take(buffer.subarray(0, count)) === true) return;
  }
}

async function textOf(child: PtyChild): Promise<string> {
  let text = "";
  await read(child.output, (bytes) => {
    text += Buffer.from(bytes).toString();
    return false;
  });
  return text;
}

async function untilText(child: PtyChild, wanted: string): Promise<void> {
  let text = "";
  await read(child.output, (bytes) => {
    text += Buffer.from(bytes).toString();
    return text.includes(wanted);
  });
  expect(text).toContain(wanted);
}

function release(child: PtyChild): void {
  child.signalGroup(9);
  child.input.close();
  child.output.close();
}

afterEach(async () => {
  for (const child of open.splice(0)) {
    release(child);
    await child.exited;
  }
  settledDescriptors ??= descriptorsOf(process.pid);
});

describe("output of a pty", () => {
  test("200 commands that print 300 kB and exit at once lose not a byte", async () => {
    for (let round = 0; round < 200; round += 1) {
      const child = start("stty raw; head -c 300000 /dev/zero; printf END; exit 7");
      let count = 0;
      let tail = "";
      await read(child.output, (bytes) => {
        count += bytes.length;
        tail = (tail + Buffer.from(bytes.subarray(-3)).toString("latin1")).slice(-3);
        return false;
      });
      expect([round, count, tail]).toEqual([round, 300_003, "END"]);
      expect(await child.exited).toEqual({ code: 7, signal: null });
      release(child);
    }
  });

  test("a reader that stops for a second stops the command, and loses nothing", async () => {
    const child = start("stty raw; head -c 2000000 /dev/zero; exit 0");
    await Bun.sleep(1_000);
    expect(isAlive(child.pid)).toBe(true);
    let count = 0;
    let paused = false;
    const buffer = new Uint8Array(65_536);
    for (;;) {
      const got = child.output.tryRead(buffer, 0, buffer.length);
      if (got === 0) break;
      if (got < 0) await child.output.readable();
      else count += got;
      if (!paused && count > 1_000_000) {
        paused = true;
        await Bun.sleep(1_000);
        expect(isAlive(child.pid)).toBe(true);
      }
    }
    expect(count).toBe(2_000_000);
  });

  test("the end comes when the last holder of the terminal is gone, not when the command exits", async () => {
    const child = start("trap '' HUP; (sleep 0.4; echo late) & echo first");
    expect(await textOf(child)).toBe("first\r\nlate\r\n");
  });

  test("reading after a close is an end, also for a reader that waits", async () => {
    const child = start("sleep 60");
    const waiting = child.output.readable();
    child.output.close();
    await waiting;
    expect(child.output.tryRead(new Uint8Array(1), 0, 1)).toBe(0);
  });
});

describe("input of a pty", () => {
  test("a 4 MiB paste into cat on a raw terminal comes back exact to the byte", async () => {
    const child = start("stty raw -echo; echo ready; exec cat");
    await untilText(child, "ready\n");
    const paste = randomBytes(4 * 2 ** 20);
    const hash = createHash("sha256");
    let count = 0;
    const reading = read(child.output, (bytes) => {
      hash.update(bytes);
      count += bytes.length;
      return count >= paste.length;
    });
    expect(await child.input.write(paste)).toBe(true);
    await reading;
    expect(count).toBe(paste.length);
    expect(hash.digest("hex")).toBe(createHash("sha256").update(paste).digest("hex"));
  });

  test("a write to a command that does not read waits, and does not stop the process", async () => {
    const child = start("stty raw -echo; echo ready; sleep 60");
    await untilText(child, "ready");
    let written: boolean | undefined;
    const writing = child.input.write(Buffer.alloc(1 << 20)).then((result) => {
      written = result;
    });
    const started = performance.now();
    await Bun.sleep(100);
    expect(performance.now() - started).toBeLessThan(1_000);
    expect(written).toBeUndefined();
    release(child);
    await writing;
    expect(written).toBe(false);
  });

  test("a write waits while the command sleeps, and goes on when it reads", async () => {
    const child = start("stty raw -echo; echo ready; sleep 0.5; head -c 1000000 | wc -c");
    await untilText(child, "ready");
    const [taken, text] = await Promise.all([child.input.write(Buffer.alloc(1_000_000, 0x61)), textOf(child)]);
    expect(taken).toBe(true);
    expect(text.trim()).toBe("1000000");
  });

  test("a write to a command that is gone is false, not an exception", async () => {
    const child = start("exit 0");
    await child.exited;
    await textOf(child);
    await eventually("the terminal to refuse input", () => !isAlive(child.pid));
    await child.input.write(Buffer.from("x"));
    child.input.close();
    expect(await child.input.write(Buffer.from("x"))).toBe(false);
  });

  test("closing the input leaves the terminal open", async () => {
    const child = start("sleep 0.2; echo still here");
    child.input.close();
    expect(await textOf(child)).toBe("still here\r\n");
    expect(await child.exited).toEqual({ code: 0, signal: null });
  });
});

describe("size of a pty", () => {
  test("is the one asked for before the command runs", async () => {
    for (const [rows, cols] of [
      [1, 1],
      [24, 80],
      [300, 1000],
      [65_535, 65_535],
    ] as const)
      expect(await textOf(start("stty size", { rows, cols }))).toBe(`${rows} ${cols}\r\n`);
  });

  test("survives a storm of 20 000 resizes, and the last one stays", async () => {
    const child = start("echo ready; read line; stty size");
    await untilText(child, "ready");
    for (let index = 1; index <= 20_000; index += 1) child.resize({ rows: (index % 200) + 1, cols: (index % 300) + 1 });
    child.resize({ rows: 77, cols: 111 });
    await child.input.write(Buffer.from("go\n"));
    expect(await textOf(child)).toContain("77 111");
  });

  test("a resize after the end has no effect and does no harm", async () => {
    const child = start("exit 0");
    await textOf(child);
    child.resize({ rows: 10, cols: 10 });
    child.output.close();
    child.resize({ rows: 10, cols: 10 });
  });
});

describe("the command on a pty", () => {
  test.each([0, 1, 42, 127, 255])("exits with %d", async (code) => {
    expect(await start(`exit ${code}`).exited).toEqual({ code, signal: null });
  });

  test.each([1, 2, 9, 11, 15])("is killed by signal %d", async (signal) => {
    expect(await start(`ulimit -c 0; kill -${signal} $$; sleep 9`).exited).toEqual({ code: null, signal });
  });

  test("can be signalled from the moment that it was started", async () => {
    for (let round = 0; round < 300; round += 1) {
      const child = start("", { file: "sleep", argv: ["sleep", "60"] });
      expect(child.signalGroup(15)).toBe(true);
      expect(await child.exited).toEqual({ code: null, signal: 15 });
      expect(child.signalGroup(15)).toBe(false);
      release(child);
    }
  });

  test("leads its session, with the pty as controlling terminal and as its three streams", async () => {
    const child = start(
      "exec 3</dev/tty; test -t 0 && test -t 1 && test -t 2 && cut -d' ' -f5,6,7 /proc/$$/stat; exit 0",
    );
    const [group, session, terminal] = (await textOf(child)).trim().split(" ").map(Number);
    expect([group, session]).toEqual([child.pid, child.pid]);
    expect(terminal).toBeGreaterThan(0);
  });

  test("has the environment, the directory and the argv[0] that were given, and no more", async () => {
    const argv = ["cat", "/proc/self/environ", "/proc/self/cmdline"];
    const child = openPty({ file: "cat", argv, env: { PATH: env.PATH, A: "b c" }, cwd: "/tmp", rows: 1, cols: 1 });
    open.push(child);
    expect(await textOf(child)).toBe(`PATH=${env.PATH}\0A=b c\0${argv.join("\0")}\0`);
    expect(await textOf(start("pwd", { cwd: "/usr" }))).toBe("/usr\r\n");
  });

  test("inherits no descriptor of other ptys", async () => {
    const others = [start("sleep 60"), start("sleep 60")];
    const child = start("ls /proc/$$/fd; exit 0");
    const fds = (await textOf(child)).trim().split(/\s+/).map(Number);
    expect(fds.filter((fd) => fd < 10)).toEqual([0, 1, 2]);
    for (const other of others) release(other);
  });

  test("is a thread of work each: 40 at once end with their own codes", async () => {
    const children = Array.from({ length: 40 }, (_, code) => start(`sleep 0.1; exit ${code}`));
    const ended = await Promise.all(children.map(({ exited }) => exited));
    expect(ended.map(({ code }) => code)).toEqual(children.map((_, code) => code));
  });
});

test("no descriptor, pty or zombie is left of all these", async () => {
  await eventually("the descriptors of before", () => {
    const now = descriptorsOf(process.pid);
    // A pty lives as long as its master is open.
    return ptyMasters(process.pid) === 0 && now.length <= (settledDescriptors?.length ?? 0);
  });
  expect(zombiesOf(process.pid)).toEqual([]);
});

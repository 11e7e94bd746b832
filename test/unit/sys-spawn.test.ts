/** Children on pipes by themselves, and the descriptors under them. */
import { afterEach, describe, expect, setDefaultTimeout, test } from "bun:test";
import { closeFd, createPipe, tryPipeSize } from "#sys/fd.ts";
import { type PipedChild, type SpawnRequest, spawnPiped, spawnWithoutInput } from "#sys/spawn.ts";
import { FdReader, FdWriter } from "#sys/stream-fd.ts";
import { descriptorsOf, eventually, isAlive } from "#test/shell/processes.ts";

setDefaultTimeout(30_000);

const env = { PATH: "/usr/sbin:/usr/bin:/sbin:/bin" };
const open: Pick<PipedChild, "pid" | "stdout" | "stderr" | "exited">[] = [];

function start(script: string, request: Partial<SpawnRequest> = {}): PipedChild {
  const child = spawnPiped({ file: "/bin/sh", argv: ["sh", "-c", script], env, cwd: "/", ...request });
  open.push(child);
  return child;
}

async function textOf(reader: FdReader): Promise<string> {
  const buffer = new Uint8Array(65_536);
  let text = "";
  for (;;) {
    const count = reader.tryRead(buffer, 0, buffer.length);
    if (count === 0) return text;
    if (count < 0) await reader.readable();
    else text += Buffer.from(buffer.subarray(0, count)).toString("latin1");
  }
}

afterEach(async () => {
  for (const child of open.splice(0)) {
    if (isAlive(child.pid)) process.kill(-child.pid, "SIGKILL");
    child.stdout.close();
    child.stderr.close();
    if ("stdin" in child) (child as PipedChild).stdin.close();
    await child.exited;
  }
});

describe("a child on pipes", () => {
  test("has its three streams apart, each a real pipe that can be opened again", async () => {
    const child = start("read line; echo out:$line; echo err >&2; echo again > /dev/stdout");
    await child.stdin.write(Buffer.from("in\n"));
    const [out, err] = await Promise.all([textOf(child.stdout), textOf(child.stderr)]);
    expect([out, err]).toEqual(["out:in\nagain\n", "err\n"]);
    expect(await child.exited).toEqual({ code: 0, signal: null });
  });

  test("sees the end of its input when that is closed", async () => {
    const child = start("wc -c");
    await child.stdin.write(Buffer.alloc(500_000));
    child.stdin.close();
    expect((await textOf(child.stdout)).trim()).toBe("500000");
  });

  test("that closed its input makes a write false, not a signal to us", async () => {
    const child = start("exec <&-; echo closed; sleep 60");
    const buffer = new Uint8Array(16);
    while (child.stdout.tryRead(buffer, 0, 16) < 0) await child.stdout.readable();
    expect(await child.stdin.write(Buffer.alloc(10))).toBe(false);
  });

  test("stops at its full pipe while nobody reads", async () => {
    const child = start("head -c 10000000 /dev/zero; echo done >&2");
    await Bun.sleep(300);
    expect(isAlive(child.pid)).toBe(true);
    expect((await textOf(child.stdout)).length).toBe(10_000_000);
    expect(await textOf(child.stderr)).toBe("done\n");
  });

  test("leads a session of its own and has argv[0], environment and directory as given", async () => {
    const child = start("", { argv: ["-sh", "-c", "echo $0; pwd; env | grep -v _="], cwd: "/usr", env: { A: "b" } });
    expect((await textOf(child.stdout)).split("\n").slice(0, 2)).toEqual(["-sh", "/usr"]);
    const other = start("cut -d' ' -f5,6 /proc/$$/stat; exit");
    expect((await textOf(other.stdout)).trim()).toBe(`${other.pid} ${other.pid}`);
  });

  test.each([0, 3, 255])("exits with %d", async (code) => {
    expect(await start(`exit ${code}`).exited).toEqual({ code, signal: null });
  });

  test.each([1, 6, 9, 15])("is killed by signal %d", async (signal) => {
    expect(await start(`ulimit -c 0; kill -${signal} $$`).exited).toEqual({ code: null, signal });
  });

  test("that cannot be started throws, and leaves no descriptor", () => {
    const before = descriptorsOf(process.pid).length;
    for (const request of [{ file: "/no/such/file" }, { cwd: "/no/such/dir" }])
      expect(() => start("exit 0", request)).toThrow();
    expect(descriptorsOf(process.pid).length).toBe(before);
  });

  test("without input has /dev/null there", async () => {
    const child = spawnWithoutInput({ file: "/bin/sh", argv: ["sh", "-c", "readlink /proc/self/fd/0"], env, cwd: "/" });
    open.push(child);
    expect(await textOf(child.stdout)).toBe("/dev/null\n");
  });

  test("leaves nothing open once its streams are closed", async () => {
    const count = () => descriptorsOf(process.pid).filter((path) => path.startsWith("pipe:")).length;
    const before = count();
    for (let round = 0; round < 50; round += 1) {
      const child = start("echo x");
      child.stdin.close();
      await textOf(child.stdout);
      child.stdout.close();
      child.stderr.close();
      await child.exited;
    }
    await eventually("the pipes of before", () => count() <= before);
  });
});

describe("descriptors with back-pressure", () => {
  test("a write waits for room and goes on when there is some", async () => {
    const pipe = createPipe();
    tryPipeSize(pipe.writeFd, 4096);
    const [writer, reader] = [new FdWriter(pipe.writeFd), new FdReader(pipe.readFd)];
    let done = false;
    const writing = writer.write(Buffer.alloc(100_000, 0x61)).then((result) => {
      done = true;
      return result;
    });
    await Bun.sleep(50);
    expect(done).toBe(false);
    const reading = textOf(reader);
    expect(await writing).toBe(true);
    writer.close();
    expect((await reading).length).toBe(100_000);
    reader.close();
  });

  test("a write that waits ends false when its reader goes, or when it is closed", async () => {
    for (const end of ["reader", "writer"] as const) {
      const pipe = createPipe();
      const writer = new FdWriter(pipe.writeFd);
      const writing = writer.write(Buffer.alloc(1 << 20));
      await Bun.sleep(20);
      if (end === "reader") closeFd(pipe.readFd);
      else writer.close();
      expect(await writing).toBe(false);
      writer.close();
      if (end === "writer") closeFd(pipe.readFd);
    }
  });

  test("closing twice closes once, so that a descriptor which has its number now stays open", async () => {
    const pipe = createPipe();
    const reader = new FdReader(pipe.readFd);
    reader.close();
    const next = createPipe();
    reader.close();
    const writer = new FdWriter(next.writeFd);
    expect(await writer.write(Buffer.from("x"))).toBe(true);
    writer.close();
    const nextReader = new FdReader(next.readFd);
    expect(await textOf(nextReader)).toBe("x");
    nextReader.close();
    closeFd(pipe.writeFd);
  });

  test("a nudge lets a waiting reader look again", async () => {
    const pipe = createPipe();
    const reader = new FdReader(pipe.readFd);
    const waiting = reader.readable();
    reader.nudge();
    await waiting;
    expect(reader.tryRead(new Uint8Array(1), 0, 1)).toBe(-1);
    reader.close();
    closeFd(pipe.writeFd);
  });

  test("hundreds wait at once, and each gets its own bytes", async () => {
    const pipes = Array.from({ length: 300 }, () => createPipe());
    const texts = pipes.map(({ readFd }) => {
      const reader = new FdReader(readFd);
      return textOf(reader).finally(() => reader.close());
    });
    const writers = pipes.map(({ writeFd }) => new FdWriter(writeFd));
    for (const [index, writer] of writers.entries()) await writer.write(Buffer.from(String(index)));
    for (const writer of writers) writer.close();
    expect(await Promise.all(texts)).toEqual(pipes.map((_, index) => String(index)));
  });
});

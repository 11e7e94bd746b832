import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import {
  existsSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Console } from "#host/clients/console/console.ts";
import { maxBlobBytes } from "#protocol/console/limits.ts";
import { serverCommand } from "#test/console/servers.ts";

const text = (bytes: Uint8Array) => Buffer.from(bytes).toString();
const bytes = (value: string) => Buffer.from(value);

let directory: string;
let session: Console;
beforeAll(async () => {
  directory = mkdtempSync(join(tmpdir(), "vmapp-console-"));
  session = await Console.open({ server: { command: serverCommand, cwd: directory } });
});
afterAll(async () => {
  await session?.close();
  rmSync(directory, { recursive: true, force: true });
});

const stillWorks = async () => {
  await session.write("alive", bytes("yes"));
  expect(text((await session.read("alive")).data)).toBe("yes");
};

describe("a write", () => {
  test("and a read carry any bytes", async () => {
    const sent = Buffer.from([0xff, 0xfe, 0, 0x0a, 0]);
    expect(await session.write("any", sent)).toBe(5);
    expect((await session.read("any")).data).toEqual(sent);
  });

  test("makes the file that a command sees, and a command the file that a read sees", async () => {
    await session.write("from-client", bytes("one\n"));
    expect(text((await session.exec(["cat", "from-client"])).stdout)).toBe("one\n");
    await session.exec(["sh", "-c", "echo two > from-command"]);
    expect(text((await session.read("from-command")).data)).toBe("two\n");
  });

  test("without an offset replaces what was there", async () => {
    await session.write("whole", Buffer.alloc(1024 * 1024, 1));
    expect(await session.write("whole", bytes("0123456789"))).toBe(10);
    expect(statSync(join(directory, "whole")).size).toBe(10);
    expect(await session.write("whole", new Uint8Array(0))).toBe(0);
  });

  test("at an offset leaves the rest alone, at 0 too", async () => {
    await session.write("part", bytes("aaaaaaaaaa"));
    expect(await session.write("part", bytes("BBB"), { offset: 3 })).toBe(10);
    expect(text((await session.read("part")).data)).toBe("aaaBBBaaaa");
    expect(await session.write("part", bytes("C"), { offset: 0 })).toBe(10);
    expect(text((await session.read("part")).data)).toBe("CaaBBBaaaa");
  });

  test("beyond the end fills the gap with zeroes, also when there is nothing to write", async () => {
    await session.write("gap", bytes("ab"));
    expect(await session.write("gap", bytes("z"), { offset: 5 })).toBe(6);
    expect((await session.read("gap")).data).toEqual(Buffer.from("ab\0\0\0z"));
    expect(await session.write("gap", new Uint8Array(0), { offset: 9 })).toBe(9);
    expect((await session.read("gap")).data).toEqual(Buffer.from("ab\0\0\0z\0\0\0"));
    expect(await session.write("gap", new Uint8Array(0), { offset: 1 })).toBe(9);
  });

  test("at an offset makes the file if need be", async () => {
    expect(await session.write("made", bytes("x"), { offset: 2 })).toBe(3);
  });

  test("of nearly a whole frame arrives whole", async () => {
    const large = Buffer.alloc(60 * 1024 * 1024, "0123456789abcdef!");
    expect(await session.write("large", large)).toBe(large.length);
    expect(Buffer.compare(readFileSync(join(directory, "large")), large)).toBe(0);
    expect(Buffer.compare((await session.read("large")).data, large)).toBe(0);
  });

  test("that does not fit a frame is refused on this side, and the session goes on", async () => {
    await expect(session.write("too-large", Buffer.alloc(64 * 1024 * 1024))).rejects.toThrow("exceeds the limit");
    expect(existsSync(join(directory, "too-large"))).toBe(false);
    await stillWorks();
  });

  test("follows a link", async () => {
    writeFileSync(join(directory, "target"), "old");
    symlinkSync("target", join(directory, "link"));
    await session.write("link", bytes("new"));
    expect(readFileSync(join(directory, "target"), "utf8")).toBe("new");
  });
});

describe("a read", () => {
  test("that is bounded says how much it left", async () => {
    await session.write("ten", bytes("0123456789"));
    expect(await session.read("ten", { offset: 2, len: 3 })).toEqual({ data: bytes("234"), size: 10 });
    expect(await session.read("ten", { len: 0 })).toEqual({ data: Buffer.alloc(0), size: 10 });
    expect(await session.read("ten", { offset: 8, len: 100 })).toEqual({ data: bytes("89"), size: 10 });
  });

  test("past the end is empty and not an error", async () => {
    for (const offset of [10, 11, 2 ** 40, Number.MAX_SAFE_INTEGER]) {
      expect(await session.read("ten", { offset })).toEqual({ data: Buffer.alloc(0), size: 10 });
    }
  });

  test("of an empty file is empty", async () => {
    writeFileSync(join(directory, "nothing"), "");
    expect(await session.read("nothing")).toEqual({ data: Buffer.alloc(0), size: 0 });
  });

  test("of a kernel file that says it has no bytes brings what it has", async () => {
    const status = await session.read("/proc/self/status");
    expect(text(status.data)).toContain("VmRSS");
    expect(status.size).toBe(status.data.length);
    const version = readFileSync("/proc/version");
    expect(await session.read("/proc/version", { offset: 6, len: 7 })).toEqual({
      data: version.subarray(6, 13),
      size: version.length,
    });
    expect((await session.read("/sys/kernel/uevent_seqnum")).data.length).toBeGreaterThan(0);
  });

  test("of a file larger than a frame comes in pieces that its size makes sense of", async () => {
    const path = join(directory, "sparse");
    writeFileSync(path, "start");
    truncateSync(path, 5 * 1024 ** 3);
    expect(await session.write("sparse", bytes("end"), { offset: 5 * 1024 ** 3 - 3 })).toBe(5 * 1024 ** 3);
    const first = await session.read("sparse");
    expect([first.data.length, first.size]).toEqual([maxBlobBytes, 5 * 1024 ** 3]);
    expect(text(first.data.subarray(0, 5))).toBe("start");
    const last = await session.read("sparse", { offset: 5 * 1024 ** 3 - 1024 });
    expect([last.data.length, text(last.data.subarray(-3))]).toEqual([1024, "end"]);
    const middle = await session.read("sparse", { offset: 2 ** 32 - 2, len: 4 });
    expect(middle.data).toEqual(Buffer.alloc(4));
  });

  test("of a whole file in pieces is what was written", async () => {
    const large = Buffer.alloc(150 * 1024 * 1024);
    for (let index = 0; index < large.length; index += 1021) large[index] = index;
    writeFileSync(join(directory, "pieces"), large);
    let offset = 0;
    for await (const piece of session.readFile("pieces")) {
      expect(Buffer.compare(piece, large.subarray(offset, offset + piece.length))).toBe(0);
      offset += piece.length;
    }
    expect(offset).toBe(large.length);
  });
});

describe("a path", () => {
  test("that is not there is not found, for a write when a directory above it is missing", async () => {
    await expect(session.read("missing")).rejects.toMatchObject({
      code: -32005,
      message: expect.stringMatching(/^missing: /),
    });
    await expect(session.write("no/such/dir", bytes("x"))).rejects.toMatchObject({ code: -32005 });
    await stillWorks();
  });

  test("that is a directory is neither read nor written", async () => {
    for (const path of [".", directory, "/proc"]) {
      await expect(session.read(path)).rejects.toMatchObject({ code: -32006 });
      await expect(session.write(path, bytes("x"))).rejects.toMatchObject({ code: -32006 });
    }
    await stillWorks();
  });

  test("through a file, round in circles, too long or impossible is an io failure", async () => {
    symlinkSync("loop", join(directory, "loop"));
    for (const path of ["alive/x", "loop", "n".repeat(300), "a\0b"]) {
      await expect(session.read(path)).rejects.toMatchObject({ code: -32007 });
      await expect(session.write(path, bytes("x"))).rejects.toMatchObject({ code: -32007 });
    }
    await stillWorks();
  });

  test("that is a FIFO, a socket or a device is refused at once instead of blocking", async () => {
    await session.exec(["mkfifo", "fifo"]);
    for (const path of ["fifo", "/dev/zero", "/dev/null"]) {
      await expect(session.read(path)).rejects.toMatchObject({ code: -32007 });
      await expect(session.write(path, bytes("x"))).rejects.toMatchObject({ code: -32007 });
    }
    await expect(session.read("fifo")).rejects.toMatchObject({ message: "fifo: is a FIFO, not a file" });
    await stillWorks();
  });

  test("whose kernel file has nothing to say yet does not block", async () => {
    // Empty, an error, or what the kernel has logged: each of them at once.
    await session.read("/proc/kmsg", { len: 10 }).catch((error) => expect(error).toMatchObject({ code: -32007 }));
    await stillWorks();
  });
});

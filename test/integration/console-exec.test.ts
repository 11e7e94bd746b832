import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import {
  chmodSync,
  closeSync,
  cpSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Console } from "#host/clients/console/console.ts";
import { maxStreamBytes } from "#protocol/console/limits.ts";
import { serverCommand } from "#test/console/servers.ts";

const text = (bytes: Uint8Array) => Buffer.from(bytes).toString();

let directory: string;
let console_: Console;
beforeAll(async () => {
  directory = mkdtempSync(join(tmpdir(), "vmapp-console-"));
  console_ = await Console.open({ server: { command: serverCommand, cwd: directory } });
});
afterAll(async () => {
  await console_?.close();
  rmSync(directory, { recursive: true, force: true });
});

const sh = (line: string, timeoutMs?: number) =>
  console_.exec(["sh", "-c", line], timeoutMs === undefined ? {} : { timeoutMs });
const stillWorks = async () => expect(text((await console_.exec(["echo", "still here"])).stdout)).toBe("still here\n");

/** Command lines of the processes whose arguments have `word` in them. */
function processesWith(word: string): string[] {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .flatMap((pid) => {
      try {
        const line = readFileSync(`/proc/${pid}/cmdline`, "utf8");
        const state = readFileSync(`/proc/${pid}/stat`, "utf8").replace(/^.*\) /, "")[0];
        return line.includes(word) && state !== "Z" ? [line] : [];
      } catch {
        return [];
      }
    });
}

async function until(condition: () => boolean, milliseconds: number): Promise<boolean> {
  for (const end = Date.now() + milliseconds; Date.now() < end; await Bun.sleep(20)) if (condition()) return true;
  return condition();
}

describe("a command", () => {
  test("is answered with its status and its two streams apart, byte for byte", async () => {
    const run = await sh("printf '\\377\\0\\n'; echo err >&2; exit 7");
    expect(run.code).toBe(7);
    expect([...run.stdout]).toEqual([0xff, 0, 0x0a]);
    expect(text(run.stderr)).toBe("err\n");
    expect(run.truncated).toBe(false);
  });

  test("that a signal killed is answered with 128 and the signal", async () => {
    expect((await sh("kill -TERM $$")).code).toBe(143);
    expect((await sh("kill -KILL $$")).code).toBe(137);
  });

  test("gets its words as they are: nothing consults a shell", async () => {
    const run = await console_.exec(["printf", "%s|", "a b", "$HOME", "*", "", "ü"]);
    expect(text(run.stdout)).toBe("a b|$HOME|*||ü|");
  });

  test("reads /dev/null, a device and not a pipe", async () => {
    expect(text((await sh("readlink /proc/self/fd/0; cat | wc -c")).stdout)).toBe("/dev/null\n0\n");
  });

  test("can open its own standard output by name", async () => {
    expect(text((await sh("echo named > /dev/stdout")).stdout)).toBe("named\n");
  });

  test("inherits the server's environment on the server's own machine, and PWD", async () => {
    const { stdout } = await console_.exec(["env"]);
    expect(text(stdout)).toContain(`PATH=${process.env.PATH}\n`);
    expect(text(stdout)).toContain(`PWD=${directory}\n`);
  });

  test("is the leader of its own process group and session", async () => {
    const { stdout } = await sh("cut -d' ' -f1,5,6 /proc/$$/stat");
    const [pid, group, session] = text(stdout).trim().split(" ");
    expect(group).toBe(pid as string);
    expect(session).toBe(pid as string);
  });

  test("keeps every byte of its output and the exit comes last, many times over", async () => {
    for (let round = 0; round < 100; round++) {
      const { stdout, code } = await sh("head -c 300000 /dev/zero; echo END");
      expect(stdout.length).toBe(300_004);
      expect(text(stdout.subarray(-4))).toBe("END\n");
      expect(code).toBe(0);
    }
  });

  test("that writes too much is cut and said to be, on each stream for itself, and the session goes on", async () => {
    const run = await sh("head -c 70000000 /dev/zero | tr '\\0' x; echo err >&2; exit 3");
    expect(run.truncated).toBe(true);
    expect(run.stdout.length).toBe(maxStreamBytes);
    expect(run.stdout.every((byte) => byte === 0x78)).toBe(true);
    expect(text(run.stderr)).toBe("err\n");
    expect(run.code).toBe(3);
    await stillWorks();
  });

  test("may fill both streams of an answer", async () => {
    const run = await sh("head -c 34000000 /dev/zero >&2 & head -c 34000000 /dev/zero; wait");
    expect([run.stdout.length, run.stderr.length, run.truncated]).toEqual([maxStreamBytes, maxStreamBytes, true]);
    await stillWorks();
  });

  test("with exactly as much output as fits is not said to be cut", async () => {
    const run = await sh(`head -c ${maxStreamBytes} /dev/zero`);
    expect([run.stdout.length, run.truncated]).toEqual([maxStreamBytes, false]);
  });

  test("is answered when its streams end: a background process that holds them holds the answer", async () => {
    const start = Date.now();
    expect(text((await sh("echo hi; sleep 1 &")).stdout)).toBe("hi\n");
    expect(Date.now() - start).toBeGreaterThan(900);
    const redirected = Date.now();
    expect(text((await sh("echo hi; sleep 30 >/dev/null 2>&1 &")).stdout)).toBe("hi\n");
    expect(Date.now() - redirected).toBeLessThan(5000);
  });
});

describe("a timeout", () => {
  test("kills the command and is an error, and the next command runs", async () => {
    const start = Date.now();
    await expect(console_.exec(["sleep", "10"], { timeoutMs: 300 })).rejects.toMatchObject({
      code: -32000,
      message: "killed after 300ms",
    });
    expect(Date.now() - start).toBeLessThan(3000);
    await stillWorks();
  });

  test("reaches what the command started", async () => {
    const lines: [string, string][] = [
      ["sleep 37.31 & sleep 37.31", "37.31"],
      ["sleep 37.32 & wait", "37.32"],
      ["(trap '' TERM HUP; sleep 37.33) & (sleep 37.33; :) & wait", "37.33"],
    ];
    for (const [line, word] of lines) {
      await expect(sh(line, 300)).rejects.toMatchObject({ code: -32000 });
      expect(await until(() => processesWith(word).length === 0, 500)).toBe(true);
    }
    await stillWorks();
  });

  test("does not wait for a background process that holds the output", async () => {
    const start = Date.now();
    await expect(sh("echo hi; setsid sleep 4 & exit 0", 300)).rejects.toMatchObject({ code: -32000 });
    expect(Date.now() - start).toBeLessThan(2500);
    await stillWorks();
  });

  test("strikes while the command floods", async () => {
    await expect(sh("yes", 300)).rejects.toMatchObject({ code: -32000 });
    await stillWorks();
  });

  test("of zero strikes at once, and one that is far away never", async () => {
    await expect(sh("sleep 5", 0)).rejects.toMatchObject({ code: -32000, message: "killed after 0ms" });
    expect((await sh("exit 4", 2 ** 50)).code).toBe(4);
  });

  test("that is not reached changes nothing", async () => {
    expect((await sh("sleep 0.1; exit 5", 20_000)).code).toBe(5);
  });
});

describe("a program that cannot run", () => {
  test("is refused with its name and what stands in the way", async () => {
    writeFileSync(join(directory, "plain"), "x");
    writeFileSync(join(directory, "empty"), "");
    writeFileSync(join(directory, "lost"), "#!/no/such/interpreter\n");
    for (const name of ["empty", "lost"]) chmodSync(join(directory, name), 0o755);
    const cases: [string[], RegExp][] = [
      [["no-such-program"], /^no-such-program: .*127/],
      [["./missing"], /^\.\/missing: .*127/],
      [["./plain"], /^\.\/plain: permission denied.*126/],
      [["./empty"], /^\.\/empty: .*126/],
      [["./lost"], /^\.\/lost: .*interpreter.*126/],
      [["/"], /^\/: is a directory.*126/],
      [["echo", "a\0b"], /NUL/],
    ];
    for (const [cmd, message] of cases) {
      await expect(console_.exec(cmd)).rejects.toMatchObject({ code: -32001, message: expect.stringMatching(message) });
    }
    await stillWorks();
  });

  test("is refused the same way when only the attempt to start it shows that", async () => {
    cpSync("/bin/true", join(directory, "busy"));
    writeFileSync(join(directory, "no-interpreter"), "#!/etc/passwd\n");
    chmodSync(join(directory, "no-interpreter"), 0o755);
    const writer = openSync(join(directory, "busy"), "r+");
    try {
      const cases: [string[], RegExp][] = [
        [["true", "x".repeat(200_000)], /^true: argument list too long.*126/],
        [["./busy"], /^\.\/busy: text file is busy.*126/],
        [["./no-interpreter"], /^\.\/no-interpreter: permission denied.*126/],
      ];
      for (const [cmd, message] of cases) {
        const error = { code: -32001, message: expect.stringMatching(message) };
        await expect(console_.exec(cmd)).rejects.toMatchObject(error);
      }
    } finally {
      closeSync(writer);
    }
    await stillWorks();
  });

  test("with no name at all is a malformed request", async () => {
    await expect(console_.exec([])).rejects.toMatchObject({ code: -32602 });
    await stillWorks();
  });

  test("because the session's directory is gone says so", async () => {
    mkdirSync(join(directory, "gone"));
    expect((await console_.exec(["cd", "gone"])).code).toBe(0);
    rmSync(join(directory, "gone"), { recursive: true });
    await expect(console_.exec(["ls"])).rejects.toMatchObject({
      code: -32001,
      message: expect.stringContaining("is gone"),
    });
    expect((await console_.exec(["cd"])).code).toBe(0);
    await stillWorks();
  });
});

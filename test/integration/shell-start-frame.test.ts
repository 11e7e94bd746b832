/** "The start frame", against a real agent. */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { ShellStart } from "#protocol/shell/start.ts";
import { type LocalAgent, startLocalAgent } from "#test/shell/agent.ts";
import { RawClient } from "#test/shell/raw-client.ts";

setDefaultTimeout(30_000);

let agent: LocalAgent;
let scratch: string;

beforeAll(async () => {
  agent = await startLocalAgent();
  scratch = mkdtempSync(join(tmpdir(), "vmapp-start-"));
});

afterAll(async () => {
  await agent.stop();
  rmSync(scratch, { recursive: true, force: true });
});

const open = (start: ShellStart) => RawClient.start(agent.directory, start);

describe("the start frame", () => {
  test("argv: empty runs a login shell that reads its input", async () => {
    const client = await open({ argv: [] });
    client.stdin('echo "$0"; exit 5\n');
    expect(await client.exit()).toBe(5);
    // The name is what the contract's argv says; -l makes it a login shell.
    expect(client.stdout.toString()).toContain("/bin/sh\n");
  });

  test("argv: absent and null run the login shell too", async () => {
    for (const payload of ["{}", '{"argv":null}']) {
      const client = await RawClient.startWith(agent.directory, payload);
      client.stdin("exit 6\n");
      expect(await client.exit()).toBe(6);
    }
  });

  test("argv: the login shell reads the profile", async () => {
    const home = mkdtempSync(join(scratch, "home-"));
    writeFileSync(join(home, ".profile"), "echo profile was read\n");
    const client = await open({ argv: [], env: { HOME: home } });
    client.stdin("exit\n");
    await client.exit();
    expect(client.stdout.toString()).toContain("profile was read");
  });

  test("argv: the command sees argv[0] as the client wrote it, and every argument", async () => {
    for (const tty of [false, true]) {
      const client = await open({ argv: ["cat", "/proc/self/cmdline"], tty });
      await client.exit();
      expect(client.stdout.toString()).toBe("cat\0/proc/self/cmdline\0");
    }
    const odd = ["printf", "[%s]", "", "a b", "ü☃", "-n", "$HOME", "x\ny"];
    const client = await open({ argv: odd });
    await client.exit();
    expect(client.stdout.toString()).toBe("[][a b][ü☃][-n][$HOME][x\ny]");
  });

  test("argv: argv[0] is looked up in PATH, first match wins, and one that cannot be executed is passed over", async () => {
    const [first, second] = [mkdtempSync(join(scratch, "bin-")), mkdtempSync(join(scratch, "bin-"))];
    for (const [directory, mode] of [
      [first, 0o644],
      [second, 0o755],
    ] as const) {
      writeFileSync(join(directory, "probe-tool"), `#!/bin/sh\necho from ${directory}\n`);
      chmodSync(join(directory, "probe-tool"), mode);
    }
    for (const tty of [false, true]) {
      const client = await open({ argv: ["probe-tool"], tty, env: { PATH: `${first}:${second}` } });
      expect(await client.exit()).toBe(0);
      expect(client.stdout.toString().trim()).toBe(`from ${second}`);
    }
    const plain = await open({ argv: ["probe-tool"] });
    expect(await plain.exit()).toBe(127);
  });

  test("argv: a path with a slash is taken from the working directory, not from PATH", async () => {
    writeFileSync(join(scratch, "local-tool"), "#!/bin/sh\necho local\n", { mode: 0o755 });
    for (const tty of [false, true]) {
      const client = await open({ argv: ["./local-tool"], cwd: scratch, tty });
      expect(await client.exit()).toBe(0);
      expect(client.stdout.toString().trim()).toBe("local");
    }
  });

  test("tty: false and absent run on pipes, true on a terminal", async () => {
    for (const [start, isTerminal] of [
      [{}, false],
      [{ tty: false }, false],
      [{ tty: true }, true],
    ] as const) {
      const client = await open({ ...start, argv: ["sh", "-c", "test -t 0 && test -t 1 && test -t 2"] });
      expect((await client.exit()) === 0).toBe(isTerminal);
    }
  });

  test.each([
    [{}, "24 80"],
    [{ rows: 0, cols: 0 }, "24 80"],
    [{ rows: 50 }, "50 80"],
    [{ cols: 132 }, "24 132"],
    [{ rows: 61, cols: 203 }, "61 203"],
    [{ rows: 65_535, cols: 65_535 }, "65535 65535"],
  ])("rows and cols: %j is a terminal of %s from the very first command on", async (size, expected) => {
    const client = await open({ argv: ["stty", "size"], tty: true, ...size });
    expect(await client.exit()).toBe(0);
    expect(client.stdout.toString()).toBe(`${expected}\r\n`);
  });

  test("term: the value of TERM, xterm-256color when it is empty, in both modes", async () => {
    for (const tty of [false, true]) {
      for (const [term, expected] of [
        [undefined, "xterm-256color"],
        ["", "xterm-256color"],
        ["vt100", "vt100"],
      ] as const) {
        const client = await open({ argv: ["printenv", "TERM"], tty, ...(term !== undefined && { term }) });
        await client.exit();
        expect(client.stdout.toString().trim()).toBe(expected);
      }
    }
  });

  test.each([false, true])("the environment is exactly the given one (tty %p)", async (tty) => {
    const client = await open({ argv: ["env"], tty, term: "dumb" });
    await client.exit();
    expect(client.stdout.toString().trim().split(/\r?\n/).sort()).toEqual([
      "HOME=/root",
      "PATH=/usr/sbin:/usr/bin:/sbin:/bin",
      "SHELL=/bin/sh",
      "TERM=dumb",
      "USER=root",
    ]);
  });

  test.each([false, true])("the command runs as root in /root (tty %p)", async (tty) => {
    const client = await open({ argv: ["sh", "-c", "pwd; id -u; id -g"], tty });
    await client.exit();
    expect(client.stdout.toString().trim().split(/\r?\n/)).toEqual(["/root", "0", "0"]);
  });

  test.each([false, true])("the command leads a session and a group of its own (tty %p)", async (tty) => {
    const client = await open({ argv: ["sh", "-c", "echo $$; cat /proc/$$/stat; exit 0"], tty });
    await client.exit();
    const [pid = "", stat = ""] = client.stdout.toString().split(/\r?\n/);
    const [, , , , group, session, terminal, foreground] = stat.replace(/\(.*\)/, "x").split(" ");
    expect([group, session]).toEqual([pid, pid]);
    expect(terminal !== "0").toBe(tty);
    if (tty) expect(Number(foreground)).toBeGreaterThan(0);
  });

  test("the pty is the controlling terminal: /dev/tty opens, and on pipes it does not", async () => {
    for (const [tty, code] of [
      [true, 0],
      [false, 1],
    ] as const) {
      const client = await open({ argv: ["sh", "-c", "(: < /dev/tty) 2>/dev/null || exit 1"], tty });
      expect(await client.exit()).toBe(code);
    }
  });

  test("the command inherits nothing but its three streams", async () => {
    for (const tty of [false, true]) {
      const others = await Promise.all([open({ argv: ["sleep", "5"], tty: true }), open({ argv: ["sleep", "5"] })]);
      await Promise.all(others.map((client) => client.started()));
      const client = await open({ argv: ["sh", "-c", "ls /proc/$$/fd; exit 0"], tty });
      await client.exit();
      const fds = client.stdout.toString().trim().split(/\s+/).map(Number);
      // dash on a terminal keeps one more descriptor of its own, from 10 on.
      expect(fds.filter((fd) => fd < 10)).toEqual([0, 1, 2]);
      for (const other of others) other.vanish();
    }
  });

  test("signals are at their defaults in the command", async () => {
    for (const tty of [false, true]) {
      const client = await open({ argv: ["grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status"], tty });
      await client.exit();
      const masks = [...client.stdout.toString().matchAll(/\t([0-9a-f]{16})/g)].map(([, hex]) => BigInt(`0x${hex}`));
      // glibc keeps 32 and 33 for itself: nobody can set them through it, and an ignored one is inherited for ever.
      expect(masks.map((mask) => mask & ~0x180000000n)).toEqual([0n, 0n]);
    }
  });
});

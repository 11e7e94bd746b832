/** The extension keys `env`, `cwd` and `user` of the start frame, against a real agent. */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { chmodSync, mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { findAccount } from "#agent/shell/account.ts";
import { Guest } from "#host/guest.ts";
import type { ShellStart } from "#protocol/shell/start.ts";
import { type LocalAgent, startLocalAgent } from "#test/shell/agent.ts";
import { RawClient } from "#test/shell/raw-client.ts";

setDefaultTimeout(30_000);

const isRoot = process.getuid?.() === 0;
let agent: LocalAgent;
let scratch: string;

beforeAll(async () => {
  agent = await startLocalAgent();
  scratch = realpathSync(mkdtempSync(join(tmpdir(), "vmapp-extensions-")));
  chmodSync(scratch, 0o755);
});

afterAll(async () => {
  await agent.stop();
  rmSync(scratch, { recursive: true, force: true });
});

async function run(start: ShellStart): Promise<{ code: number; lines: string[] }> {
  const client = await RawClient.start(agent.directory, start);
  const code = await client.exit();
  return { code, lines: client.stdout.toString().trim().split(/\r?\n/) };
}

/** The message of a session that does not run; the agent answers the next one. */
async function refusal(start: ShellStart): Promise<string> {
  const client = await RawClient.start(agent.directory, start);
  await client.end();
  expect(client.order).toEqual(["error"]);
  expect((await run({ argv: ["true"] })).code).toBe(0);
  return (await client.frame("error")).message;
}

describe("env", () => {
  test.each([false, true])("is merged over the given environment, and its values win (tty %p)", async (tty) => {
    const { lines } = await run({
      argv: ["env"],
      tty,
      term: "vt100",
      env: { A: "1", EMPTY: "", HOME: "/elsewhere", U: "ü☃" },
    });
    expect(lines.sort()).toEqual(
      [
        "A=1",
        "EMPTY=",
        "HOME=/elsewhere",
        "PATH=/usr/sbin:/usr/bin:/sbin:/bin",
        "SHELL=/bin/sh",
        "TERM=vt100",
        "USER=root",
        "U=ü☃",
      ].sort(),
    );
  });

  test("a PATH in it is the one that the command is looked up in", async () => {
    expect((await run({ argv: ["true"], env: { PATH: "/nowhere" } })).code).toBe(127);
  });

  test.each([
    ["an empty name", { "": "x" }],
    ["a name with =", { "A=B": "x" }],
    ["a NUL in a name", { "A\0": "x" }],
    ["a NUL in a value", { A: "x\0y" }],
  ])("%s is refused by name of the command", async (_name, env) => {
    expect(await refusal({ argv: ["true"], env })).toStartWith("cannot run true: an environment variable");
  });
});

test("a NUL in term is refused", async () => {
  expect(await refusal({ argv: ["true"], term: "a\0b" })).toStartWith("cannot run true: an environment variable");
});

describe("cwd", () => {
  test.each([false, true])("is where the command starts (tty %p)", async (tty) => {
    expect(await run({ argv: ["pwd"], tty, cwd: scratch })).toEqual({ code: 0, lines: [scratch] });
  });

  test.each([false, true])("a directory that does not exist is named (tty %p)", async (tty) => {
    expect(await refusal({ argv: ["pwd"], tty, cwd: "/no/such/dir" })).toBe(
      "cannot run pwd: /no/such/dir is not a directory",
    );
  });

  test.each([false, true])("a file is not a directory, and is named (tty %p)", async (tty) => {
    const file = join(scratch, "file");
    writeFileSync(file, "");
    const message = await refusal({ argv: ["pwd"], tty, cwd: file });
    expect(message).toStartWith("cannot run pwd: ");
    expect(message).toContain(file);
  });

  test.each([false, true])("a NUL in it is refused (tty %p)", async (tty) => {
    expect(await refusal({ argv: ["pwd"], tty, cwd: "/tmp\0/x" })).toStartWith("cannot run pwd: ");
  });
});

describe.skipIf(!isRoot)("user", () => {
  const identity = ["sh", "-c", 'id -u; id -g; id -G; echo "$HOME $USER $SHELL"; grep CapEff /proc/self/status'];

  test.each([false, true])("a name gives its uid, gid and groups, and HOME, USER and SHELL (tty %p)", async (tty) => {
    const account = findAccount("daemon");
    const { code, lines } = await run({ argv: identity, tty, user: "daemon" });
    expect(code).toBe(0);
    expect(lines.slice(0, 4)).toEqual([
      String(account.uid),
      String(account.gid),
      account.groups.join(" "),
      `${account.home} daemon ${account.shell}`,
    ]);
    expect(lines[4]).toMatch(/0000000000000000$/);
  });

  test.each([false, true])("a uid is taken as its account; uid:gid replaces the group (tty %p)", async (tty) => {
    const { uid } = findAccount("daemon");
    expect((await run({ argv: ["sh", "-c", "id -u; id -g; echo $USER"], tty, user: String(uid) })).lines).toEqual([
      String(uid),
      String(findAccount("daemon").gid),
      "daemon",
    ]);
    expect((await run({ argv: ["sh", "-c", "id -u; id -g"], tty, user: `${uid}:100` })).lines).toEqual([
      String(uid),
      "100",
    ]);
  });

  test.each([false, true])("a uid without an account runs with HOME / and its number as name (tty %p)", async (tty) => {
    const { lines } = await run({
      argv: ["sh", "-c", 'id -u; id -g; id -G; echo "$HOME $USER"; pwd'],
      tty,
      user: "54321",
    });
    expect(lines).toEqual(["54321", "54321", "54321", "/ 54321", "/"]);
  });

  test("the user's own terminal belongs to the session", async () => {
    const { code } = await run({ argv: ["sh", "-c", "echo x > /dev/tty"], tty: true, user: "daemon" });
    expect(code).toBe(0);
  });

  test("starts in the user's home, or where cwd says", async () => {
    const home = findAccount("daemon").home;
    expect((await run({ argv: ["pwd", "-P"], user: "daemon" })).lines).toEqual([realpathSync(home)]);
    expect((await run({ argv: ["pwd"], user: "daemon", cwd: scratch })).lines).toEqual([scratch]);
  });

  test.each([false, true])("cannot do what root can (tty %p)", async (tty) => {
    const secret = join(scratch, "secret");
    writeFileSync(secret, "x", { mode: 0o600 });
    expect((await run({ argv: ["sh", "-c", `cat ${secret} 2>/dev/null`], tty, user: "daemon" })).code).not.toBe(0);
    expect((await run({ argv: ["cat", secret], tty })).code).toBe(0);
  });

  test.each([false, true])("a program that the user may not execute is refused, not run (tty %p)", async (tty) => {
    const tool = join(scratch, "roots-own");
    writeFileSync(tool, "#!/bin/sh\necho ran\n", { mode: 0o700 });
    const message = await refusal({ argv: [tool], tty, user: "daemon" });
    expect(message).toBe(`cannot run ${tool}: permission denied`);
    expect((await run({ argv: [tool], tty })).code).toBe(0);
  });

  test.each([false, true])("a directory that the user may not enter is refused and named (tty %p)", async (tty) => {
    const closed = join(scratch, `closed-${tty}`);
    mkdirSync(closed, { mode: 0o700 });
    const message = await refusal({ argv: ["pwd"], tty, user: "daemon", cwd: closed });
    expect(message).toStartWith("cannot run pwd: ");
    expect(message).toContain(closed);
  });

  test.each([false, true])("may open its own output again, as scripts do (tty %p)", async (tty) => {
    const script = "echo again > /dev/stdout && echo error > /dev/stderr && read line < /dev/stdin; echo $line";
    for (const user of ["daemon", "54321", "4294967294:4294967294"]) {
      const client = await RawClient.start(agent.directory, { argv: ["sh", "-c", script], tty, user });
      client.stdin("typed\n");
      expect(await client.exit()).toBe(0);
      expect(client.stdout.toString()).toContain("again");
      expect(client.stdout.toString()).toContain("typed");
    }
  });

  test.each([false, true])("cannot signal any thread of the agent, which would end it (tty %p)", async (tty) => {
    const open = await RawClient.start(agent.directory, { argv: ["sleep", "60"], tty: true, user: "daemon" });
    await open.started();
    const script = `for task in /proc/${agent.pid}/task/*; do kill -0 "\${task##*/}" 2>/dev/null && echo "$task"; done; true`;
    for (let round = 0; round < 20; round += 1)
      expect(await run({ argv: ["sh", "-c", script], tty, user: "daemon" })).toEqual({ code: 0, lines: [""] });
    open.vanish();
  });

  test("signals still reach the group of another user's command", async () => {
    const client = await RawClient.start(agent.directory, { argv: ["sleep", "60"], user: "daemon" });
    await client.started();
    client.send({ type: "signal", number: 15 });
    expect(await client.exit()).toBe(143);
  });

  test.each(["nobody-of-that-name", "", "-1", "1:", ":1", "99999999999", "root:daemon"])(
    "%j is no user, and is named",
    async (user) => {
      for (const tty of [false, true]) {
        const message = await refusal({ argv: ["true"], tty, user });
        expect(message).toStartWith("cannot run true: ");
        expect(message).toContain(user);
      }
    },
  );

  test("the agent is root again afterwards", async () => {
    await Promise.all(
      Array.from({ length: 20 }, (_, index) => run({ argv: ["id", "-u"], user: index % 2 === 0 ? "daemon" : "54321" })),
    );
    expect((await run({ argv: ["sh", "-c", "id -u; id -g; id -G"] })).lines).toEqual([
      "0",
      "0",
      process.getgroups?.().join(" ") || "0",
    ]);
  });
});

describe("the library", () => {
  test("sends the extensions to an agent that has them", async () => {
    const guest = Guest.connect(agent.target);
    const { code, stdout } = await guest.exec(["sh", "-c", "pwd; echo $X"], { cwd: scratch, env: { X: "extended" } });
    expect([code, stdout.toString()]).toEqual([0, `${scratch}\nextended\n`]);
  });

  test("the hello lists a capability for each", async () => {
    const { caps } = await Guest.connect(agent.target).hello();
    expect(caps).toEqual(expect.arrayContaining(["shell.env", "shell.cwd", "shell.user"]));
  });
});

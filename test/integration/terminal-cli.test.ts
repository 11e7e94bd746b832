/** `vmapp exec` and `vmapp shell`: their flags, their pipes and their signals, against a real agent. */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { randomUUID } from "node:crypto";
import { mkdirSync, mkdtempSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { hostBootId, identifyProcess } from "#host/vm/process-identity.ts";
import { writeVmRecord } from "#host/vm/state.ts";
import { ports, unixSocketName } from "#protocol/ports.ts";
import { StockDaemon } from "#test/control/stock-daemon.ts";
import { runCli } from "#test/host/cli.ts";
import { type LocalAgent, startLocalAgent } from "#test/shell/agent.ts";
import { sourceCli } from "#test/terminal/cli.ts";
import { TestTerminal } from "#test/terminal/terminal.ts";

setDefaultTimeout(30_000);

let agent: LocalAgent;
beforeAll(async () => {
  agent = await startLocalAgent();
});
afterAll(() => agent.stop());

describe("vmapp exec", () => {
  test("sets variables with -e, from its own environment where only the name is given", async () => {
    const args = ["exec", "-e", "A=1=2", "-e", "FROM_HERE", "-e", "NOT_SET_HERE", agent.target, "--"];
    const { code, stdout } = await runCli([...args, "sh", "-c", "echo $A $FROM_HERE; env | grep -c NOT_SET"], {
      env: { FROM_HERE: "of ours" },
    });
    expect([code, stdout]).toEqual([1, "1=2 of ours\n0\n"]);
  });

  test("runs in the directory of -w and as the user of -u", async () => {
    const args = ["exec", "-w", "/usr", "-u", "nobody", agent.target, "--", "sh", "-c", "pwd; id -un"];
    expect(await runCli(args)).toEqual({ code: 0, stdout: "/usr\nnobody\n", stderr: "" });
  });

  test("says which directory or user the guest does not have", async () => {
    const absent = await runCli(["exec", "-w", "/no/such/place", agent.target, "--", "pwd"]);
    expect([absent.code, absent.stderr]).toEqual([255, "vmapp: cannot run pwd: /no/such/place is not a directory\n"]);
    const unknown = await runCli(["exec", "-u", "nosuchuser", agent.target, "--", "id"]);
    expect([unknown.code, unknown.stderr]).toEqual([255, "vmapp: cannot run id: no such user: nosuchuser\n"]);
  });

  test("refuses -i with -t where standard input is no terminal, and -t alone gives the command one", async () => {
    const refused = await runCli(["exec", "-it", agent.target, "--", "tty"]);
    expect(refused.code).toBe(255);
    expect(refused.stderr).toContain("the input device is not a TTY");
    const alone = await runCli(["exec", "-t", agent.target, "--", "sh", "-c", "tty; stty size; exit 3"]);
    expect(alone.code).toBe(3);
    expect(alone.stdout).toMatch(/^\/dev\/pts\/\d+\r\n24 80\r\n$/);
  });

  test("joins the terminal with -it, and takes the flags along", async () => {
    const script = 'echo "$A in $PWD"; tty; read line; echo "got $line"';
    await using terminal = await TestTerminal.start({
      command: [...sourceCli, "exec", "-it", "-e", "A=a", "-w", "/usr", agent.target, "--", "sh", "-c", script],
    });
    await terminal.until(/^a in \/usr\n\/dev\/pts\/\d+$/m);
    terminal.type("keys\r");
    await terminal.until("got keys");
    expect((await terminal.exited).code).toBe(0);
  });

  for (const [signal, name] of [
    ["SIGINT", "INT"],
    ["SIGTERM", "TERM"],
    ["SIGHUP", "HUP"],
  ] as const) {
    test(`on pipes hands ${signal} to the command instead of acting on it`, async () => {
      const script = `trap 'echo got ${name}; exit 9' ${name}; echo ready; while :; do sleep 0.05; done`;
      const child = Bun.spawn([...sourceCli, "exec", agent.target, "--", "sh", "-c", script], {
        stdin: "ignore",
        stdout: "pipe",
        stderr: "pipe",
      });
      let stdout = "";
      for await (const chunk of child.stdout) {
        stdout += new TextDecoder().decode(chunk);
        if (stdout === "ready\n") child.kill(signal);
      }
      expect([await child.exited, stdout]).toEqual([9, `ready\ngot ${name}\n`]);
    });
  }
});

describe("a flag that needs an extension of the agent", () => {
  test("is refused where the control service does not list it, and plain commands run", async () => {
    await using stock = await new StockDaemon().listen();
    const name = unixSocketName(ports.shell);
    symlinkSync(join(agent.directory, name), join(stock.directory, name));
    const target = `unix:${stock.directory}`;
    const { code, stdout, stderr } = await runCli(["exec", "-e", "A=1", "-u", "nobody", target, "--", "env"]);
    expect([code, stdout]).toEqual([255, ""]);
    expect(stderr).toBe(`vmapp: the agent of ${target} does not offer shell.env, shell.user\n`);
    expect(await runCli(["exec", target, "--", "echo", "plain"])).toEqual({ code: 0, stdout: "plain\n", stderr: "" });
  });

  test("is refused where there is no control service to ask, and plain commands run", async () => {
    const directory = mkdtempSync(join(tmpdir(), "vmapp-shell-only-"));
    try {
      const name = unixSocketName(ports.shell);
      symlinkSync(join(agent.directory, name), join(directory, name));
      const target = `unix:${directory}`;
      const { code, stderr } = await runCli(["exec", "-w", "/", target, "--", "pwd"]);
      expect(code).toBe(255);
      expect(stderr).toContain(`cannot ask ${target} whether it offers shell.cwd: cannot connect to port 1337`);
      expect(await runCli(["exec", target, "--", "echo", "plain"])).toEqual({ code: 0, stdout: "plain\n", stderr: "" });
    } finally {
      rmSync(directory, { recursive: true });
    }
  });
});

describe("vmapp shell", () => {
  test("without a terminal runs a login shell on pipes, fed from standard input", async () => {
    const result = await runCli(["shell", agent.target], {
      stdin: Buffer.from("echo $((6 * 7)); echo err >&2; exit 5\n"),
    });
    expect(result).toEqual({ code: 5, stdout: "42\n", stderr: "err\n" });
  });

  test("--session goes on where it was left", async () => {
    const name = `work-${randomUUID().slice(0, 8)}`;
    const open = () =>
      TestTerminal.start({
        command: [...sourceCli, "shell", "--session", name, agent.target, "--", "sh"],
      });
    {
      await using first = await open();
      await first.until(/[$#]$/m);
      first.type("marker=kept; echo ready\r");
      await first.until(/^ready$/m);
      first.type("~.");
      expect((await first.exited).code).toBe(255);
      expect(first.text).toContain(`vmapp: disconnected; the session ${name} goes on`);
    }
    const detached = (await runCli(["sessions", agent.target])).stdout
      .split("\n")
      .find((line) => line.startsWith(name));
    expect(detached).toMatch(/^\S+ +detached +\d+ +\d{4}-\d\d-\d\d \d\d:\d\d:\d\d +\d+ B +sh$/);
    await using second = await open();
    await second.until(/^ready$/m);
    second.type("echo still $marker; exit 4\r");
    await second.until("still kept");
    expect((await second.exited).code).toBe(4);
    const sessions = JSON.parse((await runCli(["sessions", "--json", agent.target])).stdout) as { name: string }[];
    expect(sessions.find((session) => session.name === name)).toMatchObject({
      attached: false,
      tty: true,
      exitCode: 4,
    });
  });
});

describe("vmapp sessions", () => {
  test("says so where the guest's agent has none", async () => {
    await using stock = await new StockDaemon().listen();
    const { code, stderr } = await runCli(["sessions", `unix:${stock.directory}`]);
    expect([code, stderr]).toEqual([255, "vmapp: sessions: the guest's agent has no named sessions\n"]);
  });
});

describe("vmapp shell without a name", () => {
  const runtime = mkdtempSync(join(tmpdir(), "vmapp-choose-"));
  const env = { XDG_RUNTIME_DIR: runtime };
  afterAll(() => rmSync(runtime, { recursive: true }));

  /** Records a VM that this process owns and whose guest is the local agent. */
  function record(name: string): void {
    const owner = identifyProcess(process.pid);
    if (owner === undefined) throw new Error("no identity");
    const directory = join(runtime, "vmapp", name);
    mkdirSync(directory, { recursive: true, mode: 0o700 });
    writeVmRecord(directory, {
      format: 1,
      name,
      id: randomUUID(),
      state: "running",
      created: new Date().toISOString(),
      bootId: hostBootId(),
      owner,
      image: "/",
      target: agent.target,
      memoryMib: 1,
      cpus: 1,
      detached: false,
      remove: false,
    });
  }

  test("says how to start a VM when none is running and there is nobody to ask", async () => {
    const { code, stderr } = await runCli(["shell"], { env });
    expect([code, stderr]).toEqual([255, "vmapp: no VM is running; start one with: vmapp run --detach\n"]);
  });

  test("offers to start one at a terminal, and takes no for an answer", async () => {
    await using terminal = await TestTerminal.start({ command: [...sourceCli, "shell"], env });
    await terminal.until("no VM is running; start one? [Y/n]");
    terminal.type("n\r");
    expect((await terminal.exited).code).toBe(255);
    expect(terminal.text).toContain("start one with: vmapp run --detach");
  });

  test("takes the only one that is running, with or without a command", async () => {
    record("first");
    expect(await runCli(["shell", "--", "echo", "one", "two"], { env })).toEqual({
      code: 0,
      stdout: "one two\n",
      stderr: "",
    });
    expect(await runCli(["shell"], { env, stdin: Buffer.from("echo login\n") })).toEqual({
      code: 0,
      stdout: "login\n",
      stderr: "",
    });
    expect((await runCli(["shell", "first", "--", "echo", "named"], { env })).stdout).toBe("named\n");
  });

  test("names them when several are running, and asks which one at a terminal", async () => {
    record("first");
    record("second");
    const { code, stderr } = await runCli(["shell", "--", "true"], { env });
    expect([code, stderr]).toEqual([255, "vmapp: several VMs are running, so name one of them: first, second\n"]);
    const command = [...sourceCli, "shell", "--", "sh", "-c", "tty; read line; echo got $line"] as const;
    await using terminal = await TestTerminal.start({ command, env });
    await terminal.until("which one? [first]");
    terminal.type("second\r");
    await terminal.until(/^\/dev\/pts\/\d+$/m);
    terminal.type("keys\r");
    await terminal.until("got keys");
    expect((await terminal.exited).code).toBe(0);
  });
});

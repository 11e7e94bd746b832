/** `vmapp shell` in a real terminal, with a real agent: what a user sees and what becomes of what a user types. */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { createHash, randomBytes } from "node:crypto";
import { type LocalAgent, startLocalAgent } from "#test/shell/agent.ts";
import { asleep, promptShell, sleepingCommand, sourceCli } from "#test/terminal/cli.ts";
import { TestTerminal } from "#test/terminal/terminal.ts";

setDefaultTimeout(30_000);

let agent: LocalAgent;
beforeAll(async () => {
  agent = await startLocalAgent();
});
afterAll(() => agent.stop());

interface Open {
  argv?: readonly string[];
  cols?: number;
  rows?: number;
}

const open = ({ argv = promptShell, ...size }: Open = {}): Promise<TestTerminal> =>
  TestTerminal.start({ command: [...sourceCli, "shell", agent.target, "--", ...argv], ...size });

/** Ends a test: the shell still answers, and its exit status arrives. */
async function leave(terminal: TestTerminal): Promise<void> {
  terminal.type("echo still $((40 + 2))\r");
  await terminal.until("still 42");
  terminal.type("exit 7\r");
  expect(await terminal.exited).toEqual({ code: 7, signal: undefined });
}

describe.concurrent("a session at a terminal", () => {
  test("has the terminal's size for its very first command", async () => {
    await using terminal = await open({ argv: ["stty", "size"], cols: 101, rows: 37 });
    expect((await terminal.exited).code).toBe(0);
    expect(terminal.text.trim()).toBe("37 101");
  });

  test("is 24 by 80 on a terminal that does not know its size", async () => {
    const unsized = ["sh", "-c", `stty rows 0 cols 0; exec "$@"`, "sh"] as const;
    await using terminal = await TestTerminal.start({
      command: [...unsized, ...sourceCli, "shell", agent.target, "--", "stty", "size"],
    });
    expect((await terminal.exited).code).toBe(0);
    expect(terminal.text.trim()).toBe("24 80");
  });

  test("takes the terminal's TERM along", async () => {
    await using terminal = await TestTerminal.start({
      command: [...sourceCli, "shell", agent.target, "--", "sh", "-c", "echo $TERM; tty"],
      env: { TERM: "screen-256color" },
    });
    await terminal.exited;
    expect(terminal.text).toMatch(/^screen-256color\n\/dev\/pts\/\d+\n/);
  });

  test("has ^C interrupt what runs, and ^Z and fg stop it and go on", async () => {
    await using terminal = await open();
    await terminal.until("guest>");
    terminal.type(`${sleepingCommand}\r`);
    await terminal.until(asleep);
    terminal.type("\x03");
    await terminal.until(/^asleep\n[^>]*guest>$/m);
    terminal.type(`clear; echo again; ${sleepingCommand}\r`);
    await terminal.until(/^again\nasleep$/m);
    terminal.type("\x1a");
    await terminal.until(/Stopped[^\n]*\nguest>$/m);
    terminal.type("clear; echo back; fg\r");
    await terminal.until(/^back\n.*sleep 100'$/m);
    terminal.type("\x03");
    await terminal.until(/^back\n.*sleep 100'\n[^>]*guest>$/m);
    await leave(terminal);
  });

  test("wraps a line of 200 columns right after a resize", async () => {
    await using terminal = await open();
    await terminal.until("guest>");
    terminal.resize(121, 30);
    const line = Array.from({ length: 200 }, (_, index) => String.fromCharCode(97 + (index % 26))).join("");
    // Typed at once after the resize: it is the guest's own line editor that wraps it.
    await Bun.sleep(100);
    terminal.type(`: ${line}`);
    const typed = `guest> : ${line}`;
    await terminal.until(() => {
      const row = terminal.screen.findIndex((text) => text.startsWith("guest> : abc"));
      return terminal.screen[row] === typed.slice(0, 121) && terminal.screen[row + 1] === typed.slice(121);
    });
    terminal.type("\x03");
    await terminal.until(/^guest> ?$/m);
    terminal.type("stty size\r");
    await terminal.until("30 121");
    await leave(terminal);
  });

  test("gets the last size when the window is dragged while output floods", async () => {
    await using terminal = await open();
    await terminal.until("guest>");
    terminal.type("yes | tr -d '\\n'\r");
    await terminal.until("yyyyyyyyyy");
    for (let step = 0; step < 60; step++) {
      terminal.resize(60 + step, 20 + (step % 7));
      await Bun.sleep(3);
    }
    terminal.resize(93, 31);
    terminal.type("\x03");
    await terminal.until(/^guest> ?$/m);
    terminal.type("clear; stty size\r");
    await terminal.until("31 93");
    await leave(terminal);
  });

  test("hands every byte to the command as it was typed", async () => {
    const script = "stty raw -echo; printf 'ready\\r\\n'; head -c 256 | od -An -v -tx1 | tr '\\n' ' '; stty sane";
    await using terminal = await open({ argv: ["sh", "-c", script], cols: 200 });
    await terminal.until("ready");
    const bytes = Uint8Array.from({ length: 256 }, (_, value) => value);
    terminal.type(bytes);
    expect((await terminal.exited).code).toBe(0);
    expect(terminal.text.replace("ready", "").replace(/\s/g, "")).toBe(Buffer.from(bytes).toString("hex"));
  });

  test("hands every byte of the command's output to the terminal as it was written", async () => {
    const octal = Array.from({ length: 256 }, (_, value) => `\\${value.toString(8).padStart(3, "0")}`).join("");
    const script = `stty raw; printf '${octal}'; stty sane`;
    await using terminal = await open({ argv: ["sh", "-c", script] });
    expect((await terminal.exited).code).toBe(0);
    expect(terminal.output.toString("hex")).toBe(
      Buffer.from(Uint8Array.from({ length: 256 }, (_, value) => value)).toString("hex"),
    );
  });

  test("shows UTF-8 as it is typed and as it is printed", async () => {
    await using terminal = await open({ argv: ["sh", "-c", "echo ready; exec cat"] });
    await terminal.until("ready");
    const text = "Grüße, 日本語, Ελληνικά, 🙂";
    terminal.type(`${text}\r`);
    await terminal.until(`${text}\n${text}\n`);
    terminal.type("\x04");
    expect((await terminal.exited).code).toBe(0);
  });

  test("takes a paste of 1 MiB that the command does not read for a second", async () => {
    const size = 1024 * 1024;
    // Nothing of a paste may be taken for an escape: bytes without ~.
    const paste = randomBytes(size).map((byte) => (byte === 0x7e ? 0x7f : byte));
    const script = `stty raw -echo; echo ready; sleep 1; head -c ${size} | sha256sum; stty sane`;
    await using terminal = await open({ argv: ["sh", "-c", script], cols: 100 });
    await terminal.until("ready");
    terminal.type(paste);
    expect((await terminal.exited).code).toBe(0);
    expect(terminal.text).toContain(createHash("sha256").update(paste).digest("hex"));
  }, 60_000);

  test("loses nothing of what a command prints just before it exits", async () => {
    const script = "head -c 300000 /dev/zero | tr '\\0' x; echo END; exit 5";
    for (let round = 0; round < 5; round++) {
      await using terminal = await open({ argv: ["sh", "-c", script] });
      expect((await terminal.exited).code).toBe(5);
      const output = terminal.output.toString();
      expect(output.length).toBe(300_000 + "END\r\n".length);
      expect(output.endsWith("xEND\r\n")).toBe(true);
    }
  });

  test("waits for a terminal that takes nothing for a while, and then shows everything", async () => {
    const count = 8 * 1024 * 1024;
    await using terminal = await open({ argv: ["sh", "-c", `head -c ${count} /dev/zero | tr '\\0' x; echo END`] });
    await terminal.until("xxx");
    terminal.flow("pause");
    await Bun.sleep(1_000);
    const taken = terminal.output.length;
    expect(taken).toBeLessThan(count);
    terminal.flow("resume");
    expect((await terminal.exited).code).toBe(0);
    expect(terminal.output.length).toBe(count + "END\r\n".length);
  }, 60_000);

  test("says that a command does not exist, and exits with 127", async () => {
    await using terminal = await open({ argv: ["no-such-command"] });
    expect((await terminal.exited).code).toBe(127);
    expect(terminal.text.trim()).toBe("no-such-command: command not found");
  });

  test("says why a command cannot run, and exits with 255", async () => {
    await using terminal = await open({ argv: ["/etc"] });
    expect((await terminal.exited).code).toBe(255);
    expect(terminal.text.trim()).toBe("vmapp: cannot run /etc: is a directory");
  });
});

describe.concurrent("an escape at the start of a line", () => {
  test("~. disconnects with 255, and the command is hung up", async () => {
    await using terminal = await open({ argv: ["sh", "-c", "trap 'echo hung up >&2; exit' HUP; echo pid $$; cat"] });
    await terminal.until(/pid \d+/);
    const pid = Number(/pid (\d+)/.exec(terminal.text)?.[1]);
    terminal.type("not in a line ~.\r~.");
    expect((await terminal.exited).code).toBe(255);
    expect(terminal.text).toContain("vmapp: disconnected");
    await terminal.until(() => !isAlive(pid));
  });

  test("~~ sends one, ~? lists them, and others pass as they are", async () => {
    await using terminal = await open({ argv: ["sh", "-c", "echo ready; exec cat -v"] });
    await terminal.until("ready");
    terminal.type("~~one\r");
    await terminal.until("~one\n~one");
    terminal.type("~x\r");
    await terminal.until("~x\n~x");
    terminal.type("~?");
    await terminal.until("~.   disconnect");
    terminal.type("\x04");
    expect((await terminal.exited).code).toBe(0);
  });
});

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

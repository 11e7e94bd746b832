/** Real programs of a real guest at a real terminal, through `vmapp shell`: what the user sees. */
import { beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import type { Guest } from "#host/guest.ts";
import { asleep, builtCli, sleepingCommand } from "#test/terminal/cli.ts";
import { expectSane, hostShell, startClient } from "#test/terminal/host-shell.ts";
import { TestTerminal } from "#test/terminal/terminal.ts";
import { bootTimeoutMs, sharedVm } from "./fixture.ts";

setDefaultTimeout(60_000);

let guest: Guest;
let name: string;
beforeAll(async () => {
  const vm = await sharedVm();
  ({ guest, name } = vm);
}, bootTimeoutMs);

const open = (argv: readonly string[], size: { cols?: number; rows?: number } = {}): Promise<TestTerminal> =>
  TestTerminal.start({ command: [...builtCli, "shell", name, ...(argv.length > 0 ? ["--", ...argv] : [])], ...size });

const prompt = /^[^\n]*[#$] ?$/m;

describe("at a terminal joined to the guest", () => {
  test("the very first command has the terminal's size", async () => {
    await using terminal = await open(["stty", "size"], { cols: 101, rows: 37 });
    expect((await terminal.exited).code).toBe(0);
    expect(terminal.text.trim()).toBe("37 101");
  });

  test("vi opens a file, edits it, saves it, and leaves the screen", async () => {
    const path = "/tmp/terminal-vi";
    await guest.exec(["sh", "-c", `printf 'first\\nsecond\\n' >${path}`]);
    await using terminal = await open(["vi", path], { cols: 60, rows: 20 });
    await terminal.until(/^first\nsecond\n~/);
    expect(terminal.screen[19]).toContain(path);
    terminal.type("ojust typed: Grüße\x1b");
    await terminal.until(/^first\njust typed: Grüße\nsecond/);
    terminal.type(":wq\r");
    expect((await terminal.exited).code).toBe(0);
    expect(terminal.alternate).toBe(false);
    const { stdout } = await guest.exec(["cat", path]);
    expect(stdout.toString()).toBe("first\njust typed: Grüße\nsecond\n");
    await guest.exec(["rm", path]);
  });

  test("top redraws for the new size after a resize", async () => {
    await using terminal = await open(["top", "-d", "1"], { cols: 70, rows: 15 });
    await terminal.until(/PID +PPID/);
    const widest = (): number => Math.max(...terminal.screen.map((line) => line.length));
    expect(widest()).toBeLessThanOrEqual(70);
    terminal.resize(110, 12);
    // A top of the old size would scroll its head line out of a window of fewer rows.
    await terminal.until(
      () => /^Mem:/.test(terminal.screen[0] ?? "") && /PID +PPID/.test(terminal.text) && widest() > 70,
    );
    terminal.type("q");
    expect((await terminal.exited).code).toBe(0);
  });

  test("^C interrupts, and ^Z and fg stop a job and go on with it", async () => {
    await using terminal = await open([]);
    await terminal.until(prompt);
    terminal.type(`${sleepingCommand}\r`);
    await terminal.until(asleep);
    terminal.type("\x03");
    await terminal.until(/^asleep\n[^#$]*[#$]$/m);
    terminal.type(`clear; echo again; ${sleepingCommand}\r`);
    await terminal.until(/^again\nasleep$/m);
    terminal.type("\x1a");
    await terminal.until(/Stopped[^\n]*\n[^\n]*[#$]$/m);
    terminal.type("clear; echo back; fg\r");
    await terminal.until(/^back\n.*sleep 100["']$/m);
    terminal.type("\x03");
    await terminal.until(/^back\n.*sleep 100["']\n[^#$]*[#$]$/m);
    terminal.type("echo still $((40 + 2)); exit 7\r");
    expect((await terminal.exited).code).toBe(7);
    expect(terminal.text).toContain("still 42");
  });

  test("a line of 200 columns wraps at the new width right after a resize", async () => {
    await using terminal = await open([]);
    await terminal.until(prompt);
    terminal.resize(121, 30);
    const line = Array.from({ length: 200 }, (_, index) => String.fromCharCode(97 + (index % 26))).join("");
    terminal.type(`echo '' ${line} | tr a-z A-Z\r`);
    const upper = line.toUpperCase();
    await terminal.until(() => {
      const row = terminal.screen.findIndex((text) => text.startsWith(" ABC"));
      return terminal.screen[row] === ` ${upper.slice(0, 120)}` && terminal.screen[row + 1] === upper.slice(120);
    });
    terminal.type("stty size; exit\r");
    expect((await terminal.exited).code).toBe(0);
    expect(terminal.text).toContain("30 121");
  });

  test("a client that is killed in vi leaves the user's terminal as it was, and no vi in the guest", async () => {
    const path = "/tmp/terminal-killed";
    await using terminal = await hostShell({ vmapp: builtCli, target: name });
    const client = await startClient(terminal, `$vmapp shell $target -- vi ${path}`, /^~$/m);
    process.kill(client, "SIGTERM");
    await terminal.until(/host>$/m);
    await expectSane(terminal, 143);
    const { stdout } = await guest.exec(["sh", "-c", `sleep 0.5; pgrep -f 'vi ${path}' | grep -v "^$$$" || echo none`]);
    expect(stdout.toString()).toBe("none\n");
  });
});

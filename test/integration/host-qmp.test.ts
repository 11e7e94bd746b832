import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer, type Server } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Qmp, QmpError } from "#host/vm/qmp.ts";

let directory: string;
let path: string;
let qemu: ChildProcess | undefined;
let server: Server | undefined;

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "vmapp-qmp-"));
  path = join(directory, "qmp.sock");
});
afterEach(() => {
  qemu?.kill("SIGKILL");
  server?.close();
  qemu = undefined;
  server = undefined;
  rmSync(directory, { recursive: true, force: true });
});

/** A QEMU with a machine that has nothing, which is up at once. */
function startQemu(): ChildProcess {
  const qmp = `unix:${path},server=on,wait=off`;
  qemu = spawn("qemu-system-x86_64", ["-M", "none", "-nodefaults", "-display", "none", "-qmp", qmp], {
    stdio: "ignore",
  });
  return qemu;
}

describe("QEMU's monitor", () => {
  test("is waited for, answers commands by their number, and tells of the end", async () => {
    const child = startQemu();
    const exited = new Promise((resolve) => child.once("exit", resolve));
    const events: [string, unknown][] = [];
    const qmp = await Qmp.connect({
      path,
      timeoutMs: 10_000,
      onEvent: (event, data) => events.push([event, data.reason]),
    });
    const answers = await Promise.all([
      qmp.execute("query-status"),
      qmp.execute("query-version"),
      qmp.execute("query-name"),
    ]);
    expect(answers[0]).toMatchObject({ status: "running" });
    expect(answers[1]).toMatchObject({ qemu: { major: expect.any(Number) } });
    await expect(qmp.execute("no-such-command")).rejects.toThrow("no-such-command");
    expect(await qmp.execute("query-status")).toMatchObject({ running: true });
    await qmp.execute("quit");
    await exited;
    expect(events).toEqual([["SHUTDOWN", "host-qmp-quit"]]);
    await expect(qmp.execute("query-status")).rejects.toBeInstanceOf(QmpError);
  });

  test("that never comes up is given up at the deadline, by a message that names the socket", async () => {
    await expect(Qmp.connect({ path, timeoutMs: 100 })).rejects.toThrow(path);
  });

  test.each([
    ["garbage", "not json\n"],
    ["JSON that is no message", "[1]\n"],
    ["an endless line", "x".repeat(2 * 1024 * 1024)],
  ])("that sends %s is an error, not a hang", async (_what, bytes) => {
    server = createServer((socket) => {
      socket.on("error", () => {});
      socket.write(bytes);
    });
    await new Promise<void>((resolve) => server?.listen(path, resolve));
    await expect(Qmp.connect({ path, timeoutMs: 5_000 })).rejects.toBeInstanceOf(QmpError);
  });

  test("that does not answer fails the command, not the client", async () => {
    server = createServer((socket) => {
      socket.on("data", (chunk) => {
        if (String(chunk).includes("qmp_capabilities")) socket.write('{"return": {}, "id": 1}\n');
      });
      socket.write('{"QMP": {}}\n');
    });
    await new Promise<void>((resolve) => server?.listen(path, resolve));
    const qmp = await Qmp.connect({ path, timeoutMs: 5_000 });
    await expect(qmp.execute("query-status", {}, 50)).rejects.toThrow("no answer");
    qmp.close();
  });
});

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { createHash, randomBytes } from "node:crypto";
import { Readable } from "node:stream";
import { Guest } from "#host/guest.ts";
import { cliCommand, runCli, spawnCli } from "#test/host/cli.ts";
import { type LocalAgent, startLocalAgent } from "#test/shell/agent.ts";

let agent: LocalAgent;
let guest: Guest;

beforeAll(async () => {
  agent = await startLocalAgent();
  guest = Guest.connect(agent.target);
});
afterAll(async () => {
  await agent.stop();
});

function sha256(bytes: Uint8Array): string {
  return createHash("sha256").update(bytes).digest("hex");
}

/** Every negative test ends with this: the agent still serves. */
async function expectServes(): Promise<void> {
  expect((await guest.exec(["true"])).code).toBe(0);
}

describe("guest.exec", () => {
  test("keeps the streams apart and gives the exit status", async () => {
    const run = await guest.exec(["sh", "-c", "echo out; echo err >&2; exit 7"]);
    expect(run).toMatchObject({ code: 7, signal: undefined });
    expect(run.stdout.toString()).toBe("out\n");
    expect(run.stderr.toString()).toBe("err\n");
  });

  test("names the signal that ended the command", async () => {
    expect(await guest.exec(["sh", "-c", "kill -TERM $$"])).toMatchObject({ code: 143, signal: "SIGTERM" });
  });

  test("gives 127 and the contract's text for a command that does not exist", async () => {
    const run = await guest.exec(["no-such-command"]);
    expect(run.code).toBe(127);
    expect(run.stderr.toString()).toBe("no-such-command: command not found\n");
  });

  test("has an empty input unless one is given, as text, bytes or a stream", async () => {
    expect((await guest.exec(["cat"])).stdout.toString()).toBe("");
    expect((await guest.exec(["cat"], { stdin: "text" })).stdout.toString()).toBe("text");
    const bytes = randomBytes(300_000);
    expect(sha256((await guest.exec(["cat"], { stdin: bytes })).stdout)).toBe(sha256(bytes));
    const stream = Readable.from([bytes.subarray(0, 1000), bytes.subarray(1000)]);
    expect(sha256((await guest.exec(["cat"], { stdin: stream })).stdout)).toBe(sha256(bytes));
  });

  test("hangs a command up that runs too long, and says so", async () => {
    await expect(guest.exec(["sleep", "300"], { timeoutMs: 100 })).rejects.toMatchObject({ code: "timeout" });
    await expectServes();
  });

  test("hangs a command up when its caller gives up", async () => {
    const reason = new Error("enough");
    const controller = new AbortController();
    setTimeout(() => controller.abort(reason), 100);
    await expect(guest.exec(["sleep", "300"], { signal: controller.signal })).rejects.toBe(reason);
    await expectServes();
  });

  test("takes no more output than allowed into memory", async () => {
    const endless = guest.exec(["sh", "-c", "yes"], { maxOutputBytes: 100_000 });
    await expect(endless).rejects.toMatchObject({ code: "too_much_output" });
    await expectServes();
  });
});

describe("vmapp exec", () => {
  test("streams apart, exit status through", async () => {
    const run = await runCli(["exec", agent.target, "--", "sh", "-c", "echo out; echo err >&2; exit 7"]);
    expect(run).toEqual({ code: 7, stdout: "out\n", stderr: "err\n" });
  });

  test("a killed command gives 128 + n, one that does not exist 127", async () => {
    expect((await runCli(["exec", agent.target, "--", "sh", "-c", "kill -9 $$"])).code).toBe(137);
    const missing = await runCli(["exec", agent.target, "--", "nosuch"]);
    expect(missing).toEqual({ code: 127, stdout: "", stderr: "nosuch: command not found\n" });
  });

  test("the command's own options are not ours, with and without the separator", async () => {
    for (const separator of [["--"], []]) {
      const run = await runCli(["exec", agent.target, ...separator, "echo", "-i", "--help", "--", "x"]);
      expect(run).toEqual({ code: 0, stdout: "-i --help -- x\n", stderr: "" });
    }
  });

  test("input is passed on with -i, and empty without", async () => {
    const bytes = randomBytes(64 * 1024 * 1024);
    const hashed = await runCli(["exec", "-i", agent.target, "--", "sha256sum"], { stdin: bytes });
    expect(hashed).toMatchObject({ code: 0, stdout: `${sha256(bytes)}  -\n` });
    expect(await runCli(["exec", agent.target, "--", "wc", "-c"], { stdin: Buffer.from("x") })).toMatchObject({
      code: 0,
      stdout: "0\n",
    });
  }, 60_000);

  test("a command that does not read its input ends all the same", async () => {
    const child = spawnCli(["exec", "-i", agent.target, "--", "true"], { stdin: Buffer.alloc(8 * 1024 * 1024) });
    expect(await child.exited).toBe(0);
  });

  test("nothing of 64 MiB of output is lost to a reader that is slow", async () => {
    const script = "head -c 67108864 /dev/zero; echo END";
    const child = spawnCli(["exec", agent.target, "--", "sh", "-c", script]);
    let bytes = 0;
    let tail = "";
    for await (const chunk of child.stdout) {
      if (bytes === 0) await Bun.sleep(500);
      bytes += chunk.length;
      tail = (tail + Buffer.from(chunk.subarray(-8)).toString("latin1")).slice(-4);
    }
    expect(await child.exited).toBe(0);
    expect(bytes).toBe(67108864 + 4);
    expect(tail).toBe("END\n");
  }, 60_000);

  test("ends quietly when whoever reads its output has gone", async () => {
    const pipeline = 'set -o pipefail; "$@" | head -c 2';
    const command = cliCommand(["exec", agent.target, "--", "yes"]);
    const child = Bun.spawn(["bash", "-c", pipeline, "bash", ...command], { stdout: "pipe", stderr: "pipe" });
    const [code, stdout, stderr] = await Promise.all([
      child.exited,
      new Response(child.stdout).text(),
      new Response(child.stderr).text(),
    ]);
    expect({ code, stdout, stderr }).toEqual({ code: 141, stdout: "y\n", stderr: "" });
    await expectServes();
  });

  test("a full disk under its output is an error that names the output", async () => {
    for (const [redirection, name] of [
      [">", "standard output"],
      ["2>", "standard error"],
    ] as const) {
      const script = `"$@" ${redirection} /dev/full`;
      const command = cliCommand(["exec", agent.target, "--", "sh", "-c", "echo a; echo b >&2"]);
      const child = Bun.spawn(["bash", "-c", script, "bash", ...command], { stdout: "ignore", stderr: "pipe" });
      const [code, stderr] = await Promise.all([child.exited, new Response(child.stderr).text()]);
      expect([name, code]).toEqual([name, 255]);
      if (redirection === ">") expect(stderr).toContain(`cannot write to ${name}: ENOSPC`);
    }
    await expectServes();
  });

  test("signals go to the command", async () => {
    const script = 'trap "echo caught; exit 3" TERM; echo ready; while :; do sleep 0.05; done';
    const child = spawnCli(["exec", agent.target, "--", "sh", "-c", script]);
    const reader = child.stdout.getReader();
    expect(Buffer.from((await reader.read()).value ?? []).toString()).toBe("ready\n");
    child.kill("SIGTERM");
    expect(Buffer.from((await reader.read()).value ?? []).toString()).toBe("caught\n");
    expect(await child.exited).toBe(3);
  });

  test("vmapp's own failures give 255 and say what was tried and found", async () => {
    const missing = await runCli(["exec", "unix:/nonexistent", "--", "true"]);
    expect(missing.code).toBe(255);
    expect(missing.stderr).toContain("unix:/nonexistent");
    expect(missing.stderr).toContain("/nonexistent");
    const bad = await runCli(["exec", "ftp:x", "--", "true"]);
    expect(bad.code).toBe(255);
    expect(bad.stderr).toContain('"ftp:x"');
    for (const words of [
      ["exec", agent.target],
      ["exec", agent.target, "--"],
    ]) {
      const usage = await runCli(words);
      expect(usage.code).toBe(255);
      expect(usage.stderr).toContain("command");
    }
    await expectServes();
  });
});

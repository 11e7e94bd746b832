/** `vmapp proxy --shell`: a client of the shell protocol at a Unix socket of the host, served by a real agent. */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, setDefaultTimeout, test } from "bun:test";
import { createHash, randomBytes } from "node:crypto";
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { closedMessage } from "#host/clients/shell/error.ts";
import { Guest } from "#host/guest.ts";
import { ports, unixSocketName } from "#protocol/ports.ts";
import { type LocalAgent, startLocalAgent } from "#test/shell/agent.ts";
import { eventually, isAlive } from "#test/shell/processes.ts";
import { sourceCli } from "#test/terminal/cli.ts";

setDefaultTimeout(30_000);

type ProxyProcess = Bun.Subprocess<"ignore", "pipe", "pipe">;

let agent: LocalAgent;
beforeAll(async () => {
  agent = await startLocalAgent();
});
afterAll(() => agent.stop());

let directory: string;
let path: string;
/** a client finds the proxy's socket under the name that a `unix:` target has for the shell port */
let guest: Guest;
const running: ProxyProcess[] = [];
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "vmapp-proxy-"));
  path = join(directory, unixSocketName(ports.shell));
  guest = Guest.connect(`unix:${directory}`);
});
afterEach(async () => {
  for (const proxy of running.splice(0)) {
    proxy.kill("SIGKILL");
    await proxy.exited;
  }
  rmSync(directory, { recursive: true });
});

function spawnProxy(target = agent.target): ProxyProcess {
  const proxy = Bun.spawn([...sourceCli, "proxy", target, "--shell", path], {
    stdin: "ignore",
    stdout: "pipe",
    stderr: "pipe",
  });
  running.push(proxy);
  return proxy;
}

async function startProxy(target?: string): Promise<{ proxy: ProxyProcess; lines: string[] }> {
  const proxy = spawnProxy(target);
  const lines: string[] = [];
  void (async () => {
    let text = "";
    for await (const chunk of proxy.stderr) {
      text += new TextDecoder().decode(chunk);
      lines.splice(0, lines.length, ...text.split("\n"));
    }
  })();
  await eventually("the proxy serves", () => lines.some((line) => line.includes("serving")));
  return { proxy, lines };
}

const expectServed = async (): Promise<void> => {
  expect((await guest.exec(["echo", "served"])).stdout.toString()).toBe("served\n");
};

describe("a proxy of the shell port", () => {
  test("serves a client as the guest itself does: output, input, exit status, both ways whole", async () => {
    await startProxy();
    const { code, stdout, stderr } = await guest.exec(["sh", "-c", "echo out; echo err >&2; exit 7"]);
    expect([code, stdout.toString(), stderr.toString()]).toEqual([7, "out\n", "err\n"]);
    const bytes = randomBytes(8 * 1024 * 1024 + 1);
    const echoed = await guest.exec(["cat"], { stdin: bytes });
    expect(createHash("sha256").update(echoed.stdout).digest("hex")).toBe(
      createHash("sha256").update(bytes).digest("hex"),
    );
  });

  test("makes a socket that only its owner may use", async () => {
    await startProxy();
    expect(statSync(path).isSocket()).toBe(true);
    expect(statSync(path).mode & 0o777).toBe(0o600);
  });

  test("serves many clients at once", async () => {
    await startProxy();
    const words = Array.from({ length: 60 }, (_, index) => `client ${index}`);
    const results = await Promise.all(words.map((word) => guest.exec(["cat"], { stdin: word })));
    expect(results.map(({ stdout }) => stdout.toString())).toEqual(words);
  });

  test("passes a client's disconnect on: the command is hung up", async () => {
    await startProxy();
    const session = await guest.shell({ argv: ["sh", "-c", "echo $$; exec sleep 1000"] });
    let pid = 0;
    for await (const chunk of session.stdout) {
      pid = Number(String(chunk));
      break;
    }
    expect(isAlive(pid)).toBe(true);
    session.disconnect();
    await eventually("the command is gone", () => !isAlive(pid));
    await expectServed();
  });

  test("passes the guest's end on, says once that it cannot be reached, and serves again when it can", async () => {
    const first = await startLocalAgent();
    const target = join(directory, "guest");
    symlinkSync(first.directory, target);
    const { lines } = await startProxy(`unix:${target}`);
    const session = await guest.shell({ argv: ["cat"] });
    await session.started;
    process.kill(first.pid, "SIGKILL");
    await expect(session.exit).rejects.toThrow(closedMessage);
    for (let attempt = 0; attempt < 3; attempt++) await guest.exec(["true"]).catch(() => {});
    expect(lines.filter((line) => line.includes("cannot connect to port 1027"))).toHaveLength(1);
    await first.stop();
    rmSync(target);
    symlinkSync(agent.directory, target);
    await expectServed();
  });

  test("removes its socket and exits with 0 when it is told to end", async () => {
    const { proxy } = await startProxy();
    const session = await guest.shell({ argv: ["sleep", "1000"] });
    await session.started;
    proxy.kill("SIGTERM");
    expect(await proxy.exited).toBe(0);
    expect(existsSync(path)).toBe(false);
    await expect(session.exit).rejects.toThrow(closedMessage);
  });

  test("replaces a socket that nobody serves any more", async () => {
    const { proxy } = await startProxy();
    proxy.kill("SIGKILL");
    await proxy.exited;
    expect(existsSync(path)).toBe(true);
    await startProxy();
    await expectServed();
  });

  test("does not replace a file", async () => {
    writeFileSync(path, "precious");
    const proxy = spawnProxy();
    expect(await proxy.exited).toBe(255);
    expect(await new Response(proxy.stderr).text()).toBe(`vmapp: will not replace ${path}: it is not a socket\n`);
    expect(readFileSync(path, "utf8")).toBe("precious");
  });

  test("does not push another process aside", async () => {
    const other = createServer((socket) => socket.destroy());
    await new Promise<void>((resolve) => other.listen(path, resolve));
    const proxy = spawnProxy();
    expect(await proxy.exited).toBe(255);
    expect(await new Response(proxy.stderr).text()).toBe(`vmapp: another process serves ${path}\n`);
    expect(existsSync(path)).toBe(true);
    await new Promise((resolve) => other.close(resolve));
  });
});

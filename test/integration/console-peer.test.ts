import { describe, expect, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { guestRoot, guestRootObstacle } from "#test/console/guest-root.ts";
import { serverCommand } from "#test/console/servers.ts";

const python = "/usr/bin/python3";
const program = join(import.meta.dirname, "peer/console_peer.py");

function missingPeer(): string | undefined {
  const { exitCode } = Bun.spawnSync(["sh", "-c", `${python} -c 'import bson.int64'`]);
  return exitCode === 0 ? undefined : "Debian's python3-bson is not installed (apt-get install python3-bson)";
}

const missing = missingPeer();
const obstacle = missing ?? guestRootObstacle();
for (const reason of new Set([missing, obstacle])) {
  if (reason !== undefined) console.warn(`the console is not tested with an independent peer: ${reason}`);
}

async function runPeer(directory: string, command: readonly string[]): Promise<string> {
  const child = Bun.spawn([python, program, directory, ...command], { stdout: "pipe", stderr: "pipe" });
  const [out, error, code] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
    child.exited,
  ]);
  if (code !== 0) throw new Error(`the peer ended with ${code} after ${JSON.stringify(out)}: ${error}`);
  return out;
}

describe("a peer in another language, with another BSON library,", () => {
  test.skipIf(missing !== undefined)("drives a session on the server's own machine", async () => {
    const directory = mkdtempSync(join(tmpdir(), "vmapp-console-"));
    try {
      expect(await runPeer(directory, serverCommand)).toEndWith("snapshot: refused, as there is no base image\nquit\n");
    } finally {
      rmSync(directory, { recursive: true, force: true });
    }
  });

  test.skipIf(obstacle !== undefined)("drives a session in a guest, snapshot and all", async () => {
    using root = guestRoot();
    expect(await runPeer("/root", root.command)).toBe("init\nexec\nwrite\nread\nsnapshot\nquit\n");
  });
});

/** What only the compiled command line can show. */
import { expect, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startLocalAgent } from "#test/shell/agent.ts";
import { builtCli } from "#test/terminal/cli.ts";

test("takes neither code nor variables from files that lie in the current directory", async () => {
  const agent = await startLocalAgent();
  const directory = mkdtempSync(join(tmpdir(), "vmapp-here-"));
  try {
    writeFileSync(join(directory, "bunfig.toml"), 'preload = ["./planted.js"]\n');
    writeFileSync(join(directory, "planted.js"), 'console.log("planted code ran");\n');
    writeFileSync(join(directory, ".env"), "PLANTED=yes\n");
    const child = Bun.spawn(
      [...builtCli, "exec", "-e", "PLANTED", agent.target, "--", "sh", "-c", "env | grep PLANTED; echo done"],
      {
        cwd: directory,
        stdin: "ignore",
        stdout: "pipe",
        stderr: "pipe",
      },
    );
    const [stdout, stderr, code] = await Promise.all([
      new Response(child.stdout).text(),
      new Response(child.stderr).text(),
      child.exited,
    ]);
    expect({ stdout, stderr, code }).toEqual({ stdout: "done\n", stderr: "", code: 0 });
  } finally {
    rmSync(directory, { recursive: true, force: true });
    await agent.stop();
  }
});

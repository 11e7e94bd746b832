/** The library on Node. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type LocalAgent, startLocalAgent } from "#test/shell/agent.ts";

let agent: LocalAgent;
let directory: string;

beforeAll(async () => {
  agent = await startLocalAgent();
  directory = mkdtempSync(join(tmpdir(), "vmapp-node-"));
  // As the Makefile builds it.
  const built = await Bun.build({
    entrypoints: [join(import.meta.dirname, "../../host-client/index.ts")],
    outdir: directory,
    target: "node",
    splitting: true,
    external: ["bun:ffi"],
  });
  expect(built.success).toBe(true);
});
afterAll(async () => {
  await agent.stop();
  rmSync(directory, { recursive: true, force: true });
});

/** Runs a module on Node that has the library as `vmapp`; returns what it printed as JSON. */
async function onNode(body: string): Promise<unknown> {
  const script = join(directory, "script.mjs");
  writeFileSync(script, `import * as vmapp from "./index.js";\n${body}`);
  const child = Bun.spawn(["node", script, agent.target], { stdout: "pipe", stderr: "pipe" });
  const [code, stdout, stderr] = await Promise.all([
    child.exited,
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
  ]);
  if (code !== 0) throw new Error(stderr);
  return JSON.parse(stdout);
}

describe("the library on Node", () => {
  test("runs commands, with input, streams apart", async () => {
    const result = await onNode(`
      const guest = vmapp.Guest.connect(process.argv[2]);
      const run = await guest.exec(["sh", "-c", "wc -c; echo err >&2; exit 7"], { stdin: Buffer.alloc(1_000_000) });
      console.log(JSON.stringify({ code: run.code, stdout: String(run.stdout), stderr: String(run.stderr) }));
    `);
    expect(result).toEqual({ code: 7, stdout: "1000000\n", stderr: "err\n" });
  });

  test("says that AF_VSOCK needs Bun, and how to do without", async () => {
    const result = await onNode(`
      const error = await vmapp.Guest.connect("vsock:5").dial(1027).catch((error) => error);
      console.log(JSON.stringify({ name: error.name, code: error.code, message: error.message }));
    `);
    expect(result).toMatchObject({ name: "TransportError", code: "unsupported" });
    expect((result as { message: string }).message).toContain("hybrid:");
  });
});

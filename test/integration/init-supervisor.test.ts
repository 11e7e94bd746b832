/** The supervisor with real processes, in a process of its own so that its console can be read. */
import { afterEach, describe, expect, test } from "bun:test";
import { resolve } from "node:path";
import type { ServiceSpec } from "#init/services.ts";

const program = resolve(import.meta.dir, "../init/supervise.ts");

const service = (name: string, script: string, more: Partial<ServiceSpec> = {}): ServiceSpec => ({
  name,
  argv: ["/bin/sh", "-c", script],
  env: { PATH: "/usr/bin:/bin" },
  restart: "always",
  output: "prefixed",
  carriesSessions: false,
  ...more,
});

const cleanups: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0)) await cleanup();
});

/** Everything that the supervisor and its services wrote, once `done` holds for it. */
async function supervise(services: readonly ServiceSpec[], done: (output: string) => boolean): Promise<string> {
  const child = Bun.spawn([process.execPath, program, JSON.stringify(services)], {
    stdin: "pipe",
    stdout: "pipe",
    stderr: "pipe",
  });
  cleanups.push(async () => {
    child.stdin.end();
    await child.exited;
  });
  let output = "";
  const collect = async (stream: ReadableStream<Uint8Array>) => {
    const decoder = new TextDecoder();
    for await (const chunk of stream) output += decoder.decode(chunk, { stream: true });
  };
  void collect(child.stdout);
  void collect(child.stderr);
  const deadline = performance.now() + 10_000;
  while (!done(output)) {
    if (performance.now() > deadline) throw new Error(`not within 10 s:\n${output}`);
    await Bun.sleep(20);
  }
  return output;
}

const count = (text: string, part: string): number => text.split(part).length - 1;

describe("the supervisor", () => {
  test("owns what it started and puts each service's name before its lines", async () => {
    const output = await supervise(
      [service("one", "echo hello; echo oops >&2; sleep 60"), service("two", "printf half; sleep 60")],
      (text) => text.includes("one: oops"),
    );
    expect(output).toContain("running one owned=true\n");
    expect(output).toContain("running two owned=true\n");
    expect(output).toContain("one: hello\n");
  });

  test("gives a service its own environment and nothing else", async () => {
    const env = { PATH: "/usr/bin:/bin", MARK: "1" };
    const output = await supervise(
      [service("bare", "tr '\\0' ' ' </proc/$$/environ; echo; sleep 60", { env })],
      (text) => text.includes("bare: "),
    );
    expect(output).toMatch(/^bare: (PATH=\/usr\/bin:\/bin MARK=1|MARK=1 PATH=\/usr\/bin:\/bin) $/m);
  });

  test("starts a service again that keeps ending, with growing pauses", async () => {
    const output = await supervise([service("brief", "echo up; exit 3")], (text) => count(text, "brief: up") >= 4);
    expect(output).toMatch(/warn service ended service=brief pid=\d+ code=3/);
    expect(output).toContain("info service started again service=brief");
  });

  test("starts a service again and again whose runs leave something behind, at no cost in descriptors", async () => {
    // What is left behind has the output of the run that left it, and ends by itself once nobody needs it.
    const leaving = `(while kill -0 $PPID; do sleep 0.2; done) 2>/dev/null & printf "has "; ls /proc/$PPID/fd | wc -l; printf half; exit 1`;
    const output = await supervise([service("leaving", leaving)], (text) => count(text, "leaving: half\n") >= 6);
    const descriptors = [...output.matchAll(/^leaving: has (\d+)$/gm)].map((match) => Number(match[1]));
    expect(descriptors.length).toBeGreaterThanOrEqual(6);
    expect(descriptors.at(-1)).toBeLessThanOrEqual(descriptors[1] as number);
  });

  test("gives a service an output that it can open by name", async () => {
    const output = await supervise(
      [service("named", "echo out >/dev/stdout; echo err >/dev/stderr; sleep 60")],
      (text) => text.includes("named: err"),
    );
    expect(output).toContain("named: out\n");
  });

  test("keeps to a service's policy", async () => {
    const output = await supervise(
      [
        service("once", "echo up; exit 1", { restart: "never" }),
        service("done", "echo up; exit 0", { restart: "on-failure" }),
        service("failing", "echo up; exit 1", { restart: "on-failure" }),
      ],
      (text) => count(text, "failing: up") >= 4,
    );
    expect(count(output, "once: up")).toBe(1);
    expect(count(output, "done: up")).toBe(1);
  });

  test("names a service that cannot be started, tries it again, and runs the others", async () => {
    const output = await supervise(
      [service("missing", "", { argv: ["/no/such/program"] }), service("other", "echo here; sleep 60")],
      (text) => count(text, "service cannot be started service=missing") >= 3 && text.includes("other: here"),
    );
    expect(output).toContain("/no/such/program");
  });
});

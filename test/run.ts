/**
 * Runs the test rings and closes with `N passed, N failed`. Integration mostly waits and the VMs mostly compute, so these two
 * run side by side.
 *
 *   bun test/run.ts                  all rings
 *   bun test/run.ts unit vm          these rings
 *   bun test/run.ts fuzz --full      at the full number of inputs, rounds and runs
 */
import { mkdirSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { Readable } from "node:stream";

const rings = ["unit", "integration", "fuzz", "vm"] as const;
type Ring = (typeof rings)[number];

/** Rings of one row run at the same time. */
const schedule: readonly (readonly Ring[])[] = [["unit"], ["fuzz"], ["integration", "vm"]];

interface Tally {
  passed: number;
  failed: number;
  skipped: number;
}

const root = join(import.meta.dirname, "..");
const reports = join(root, ".cache/test-reports");

function parseArguments(args: readonly string[]): { chosen: readonly Ring[]; full: boolean } {
  const full = args.includes("--full");
  const names = args.filter((argument) => argument !== "--full");
  const unknown = names.find((name) => !rings.some((ring) => ring === name));
  if (unknown !== undefined) throw new RangeError(`no such ring: ${unknown} (there are ${rings.join(", ")})`);
  return { chosen: names.length === 0 ? rings : rings.filter((ring) => names.includes(ring)), full };
}

/** Counts the cases of a JUnit report. A ring that ended without one counts as one failure. */
function readReport(path: string, exitCode: number): Tally {
  let text: string;
  try {
    text = readFileSync(path, "utf8");
  } catch {
    return { passed: 0, failed: 1, skipped: 0 };
  }
  const cases = text.match(/<testcase\b/g)?.length ?? 0;
  const failures = text.match(/<failure\b/g)?.length ?? 0;
  const skipped = text.match(/<skipped\b/g)?.length ?? 0;
  // A failing hook, such as a panic found at the end of the run, is no case of its own.
  const failed = exitCode !== 0 && failures === 0 ? 1 : failures;
  return { passed: cases - failures - skipped, failed, skipped };
}

async function runRing(ring: Ring, full: boolean): Promise<Tally> {
  const directory = join(root, "test", ring);
  if (!readdirSync(directory).some((file) => file.endsWith(".test.ts"))) return { passed: 0, failed: 0, skipped: 0 };
  const report = join(reports, `${ring}.xml`);
  rmSync(report, { force: true });
  const started = performance.now();
  const child = Bun.spawn(
    // bunfig.toml's timeout is not honoured (Bun 1.4.5).
    [
      process.execPath,
      "test",
      "--timeout=30000",
      "--reporter=junit",
      `--reporter-outfile=${report}`,
      `./test/${ring}/`,
    ],
    {
      cwd: root,
      env: { ...process.env, ...(full ? { VMAPP_FULL: "1" } : {}) },
      stdio: ["ignore", "pipe", "pipe"],
    },
  );
  const [exitCode] = await Promise.all([child.exited, label(child.stdout, ring), label(child.stderr, ring)]);
  const tally = readReport(report, exitCode);
  const seconds = ((performance.now() - started) / 1000).toFixed(0);
  console.log(`${ring}: ${tally.passed} passed, ${tally.failed} failed, ${tally.skipped} skipped in ${seconds} s`);
  return tally;
}

/** Prints a ring's output as it comes, each line behind the ring's name. */
async function label(output: ReadableStream<Uint8Array>, ring: Ring): Promise<void> {
  const lines = createInterface({ input: Readable.fromWeb(output as never), crlfDelay: Number.POSITIVE_INFINITY });
  for await (const line of lines) console.log(`${ring} | ${line}`);
}

async function main(): Promise<void> {
  const { chosen, full } = parseArguments(process.argv.slice(2));
  mkdirSync(reports, { recursive: true });
  const total: Tally = { passed: 0, failed: 0, skipped: 0 };
  for (const row of schedule) {
    const tallies = row.filter((ring) => chosen.includes(ring)).map((ring) => runRing(ring, full));
    for (const tally of await Promise.all(tallies)) {
      total.passed += tally.passed;
      total.failed += tally.failed;
      total.skipped += tally.skipped;
    }
  }
  const skipped = total.skipped === 0 ? "" : `, ${total.skipped} skipped`;
  console.log(`\n${total.passed} passed, ${total.failed} failed${skipped}`);
  process.exitCode = total.failed === 0 && total.passed > 0 ? 0 : 1;
}

await main();

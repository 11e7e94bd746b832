/** Loaded before every test run (bunfig.toml): ends what `fixture.ts` started, after the last test of the last file. */
import { afterAll } from "bun:test";

/** Work left for the end of the run. A function that throws fails the run. */
export const atEndOfRun: (() => Promise<void>)[] = [];

afterAll(async () => {
  const problems: unknown[] = [];
  for (const work of atEndOfRun.splice(0).reverse()) {
    try {
      await work();
    } catch (problem) {
      problems.push(problem);
    }
  }
  if (problems.length > 0) throw new AggregateError(problems, problems.map(String).join("\n"));
}, 60_000);

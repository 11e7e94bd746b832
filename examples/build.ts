/**
 * Builds the example apps for a guest into a directory: `bun examples/build.ts DIRECTORY [CC]`. A TypeScript app
 * becomes one file, which the guest's own executable runs; the C app becomes a static program.
 */
import { execFileSync } from "node:child_process";
import { copyFileSync, mkdirSync } from "node:fs";
import { join } from "node:path";

const here = new URL(".", import.meta.url).pathname;

export function buildExamples(directory: string, compiler = "cc"): void {
  mkdirSync(join(directory, "hasher"), { recursive: true });
  for (const name of ["notes", "bench"]) {
    execFileSync(process.execPath, [
      "build",
      join(here, name, "main.ts"),
      "--target=bun",
      "--minify",
      `--outfile=${join(directory, name, "app.js")}`,
    ]);
  }
  copyFileSync(join(here, "notes/index.html"), join(directory, "notes/index.html"));
  execFileSync(compiler, [
    "-static",
    "-O2",
    "-s",
    "-o",
    join(directory, "hasher/hasher"),
    join(here, "hasher/hasher.c"),
  ]);
}

if (import.meta.main) {
  const [directory, compiler] = process.argv.slice(2);
  if (directory === undefined) throw new Error("usage: bun examples/build.ts DIRECTORY [CC]");
  buildExamples(directory, compiler);
}

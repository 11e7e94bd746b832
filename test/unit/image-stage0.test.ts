import { expect, test } from "bun:test";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { moduleGroups } from "#image/modules.ts";

const stage0 = join(import.meta.dir, "../../image/stage0");
const init = readFileSync(join(stage0, "init"), "utf8");

/** busybox of the image when it was built, else any POSIX shell */
function shell(): string[] {
  const packages = join(import.meta.dir, "../../.cache/image/x64/packages");
  try {
    const busybox = readdirSync(packages).find((name) => name.startsWith("busybox-static_"));
    if (busybox !== undefined) return [join(packages, busybox, "bin/busybox"), "sh"];
  } catch {}
  return ["sh"];
}

for (const script of ["init", "udhcpc"])
  test(`the shell can parse stage0/${script}`, () => {
    const result = Bun.spawnSync([...shell(), "-n", join(stage0, script)]);
    expect(result.stderr.toString()).toBe("");
    expect(result.exitCode).toBe(0);
  });

test("the shell's check finds a script that is cut off", () => {
  expect(Bun.spawnSync([...shell(), "-n", "-c", "if true; then"]).exitCode).not.toBe(0);
});

test("stage 0 loads the groups of modules that the initramfs carries, and no others", () => {
  const loaded = [...init.matchAll(/\bload ([a-z0-9]+)$/gm)].map((match) => match[1]);
  expect(new Set(loaded)).toEqual(new Set(Object.keys(moduleGroups)));
});

import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { chmod, mkdir, mkdtemp, rm, stat, symlink, utimes, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { sha256OfFile } from "#image/manifest.ts";
import { normaliseModes, packInitramfs, packSquashfs } from "#image/reproducible.ts";

let directory: string;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "vmapp-reproducible-"));
});

afterEach(async () => {
  await rm(directory, { recursive: true, force: true });
});

/** The same tree, written in another order and at another time. */
async function writeTree(name: string, files: readonly string[], time: number): Promise<string> {
  const root = join(directory, name);
  await mkdir(join(root, "sub"), { recursive: true });
  for (const file of files) {
    await writeFile(join(root, file), `content of ${file}`);
    await utimes(join(root, file), time, time);
  }
  await symlink("sub/b", join(root, "link"));
  await normaliseModes(root);
  return root;
}

async function modeOf(path: string): Promise<number> {
  return (await stat(path)).mode & 0o7777;
}

describe("archives of the image", () => {
  test("an initramfs depends on its contents alone", async () => {
    const one = await writeTree("one", ["a", "sub/b", "sub/c"], 1_000_000);
    const two = await writeTree("two", ["sub/c", "sub/b", "a"], 2_000_000);
    await packInitramfs(one, join(directory, "one.img"));
    await packInitramfs(two, join(directory, "two.img"));
    expect(await sha256OfFile(join(directory, "one.img"))).toBe(await sha256OfFile(join(directory, "two.img")));
    await writeFile(join(two, "a"), "other content");
    await packInitramfs(two, join(directory, "two.img"));
    expect(await sha256OfFile(join(directory, "one.img"))).not.toBe(await sha256OfFile(join(directory, "two.img")));
  });

  test("a squashfs depends on its contents alone", async () => {
    const hashes: string[] = [];
    for (const [name, time] of [["one", 1_000_000] as const, ["two", 2_000_000] as const]) {
      const source = await writeTree(name, name === "one" ? ["a", "sub/b"] : ["sub/b", "a"], time);
      const target = join(directory, `${name}.squashfs`);
      await packSquashfs({ source, target, compression: "lz4", blockSize: 131072 });
      hashes.push(await sha256OfFile(target));
    }
    expect(hashes[0]).toBe(hashes[1] as string);
  });
});

describe("normalised modes", () => {
  test("are 0755 for directories and programs and 0644 for other files", async () => {
    const root = await writeTree("tree", ["data", "program", "sub/b"], 1);
    await chmod(join(root, "program"), 0o4711);
    await chmod(join(root, "data"), 0o600);
    await chmod(join(root, "sub"), 0o2700);
    await normaliseModes(root);
    expect(await modeOf(join(root, "program"))).toBe(0o755);
    expect(await modeOf(join(root, "data"))).toBe(0o644);
    expect(await modeOf(join(root, "sub"))).toBe(0o755);
  });

  test("are set inside the tree only, also when a link leads out of it", async () => {
    const outside = join(directory, "outside");
    await mkdir(outside, { mode: 0o700 });
    await writeFile(join(outside, "secret"), "", { mode: 0o600 });
    const root = await writeTree("tree", ["sub/b"], 1);
    await symlink(outside, join(root, "way-out"));
    await symlink(join(outside, "secret"), join(root, "file-outside"));
    await normaliseModes(root);
    expect(await modeOf(outside)).toBe(0o700);
    expect(await modeOf(join(outside, "secret"))).toBe(0o600);
  });
});

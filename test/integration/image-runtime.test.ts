/** The built runtime brings all that vmapp-init needs: it runs in a root that holds nothing else. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { locateImage } from "#host/vm/locate-image.ts";
import { runCommand } from "#image/command.ts";

let root: string;

beforeAll(async () => {
  const { paths } = await locateImage();
  root = await mkdtemp(join(tmpdir(), "vmapp-runtime-"));
  await mkdir(join(root, "opt"));
  await mkdir(join(root, "proc"));
  await runCommand(["unsquashfs", "-no-progress", "-quiet", "-dest", join(root, "opt/vmapp"), paths.runtime]);
}, 60_000);

afterAll(async () => {
  await rm(root, { recursive: true, force: true });
});

/** Runs a program of the bare root in name spaces of its own, so that root's rights are not needed. */
function inBareRoot(...argv: string[]): Promise<string> {
  const script = 'mount -t proc proc "$0/proc" && exec chroot "$0" "$@"';
  return runCommand(["unshare", "--map-root-user", "--mount", "--pid", "--fork", "sh", "-c", script, root, ...argv]);
}

test("vmapp-init starts where there is no other library and no other file", async () => {
  expect(await inBareRoot("/opt/vmapp/bin/vmapp-init", "version")).toMatch(
    /^vmapp-init \d+\.\d+\.\d+ \([0-9a-f]{12}\)\n$/,
  );
});

test("the runtime's busybox runs there too, and the root is as bare as claimed", async () => {
  expect(await inBareRoot("/opt/vmapp/bin/busybox", "ls", "/")).toBe("opt\nproc\n");
});

test("vmapp-init takes no code from files that lie where it starts", async () => {
  const planted = { "bunfig.toml": 'preload = ["/planted.js"]\n', "planted.js": 'console.log("planted code ran");\n' };
  for (const [name, text] of Object.entries(planted)) await writeFile(join(root, name), text);
  expect(await inBareRoot("/opt/vmapp/bin/vmapp-init", "version")).toMatch(/^vmapp-init /);
});

/** What stage 0 says when an image cannot be booted: one line that names what it looked at, then the machine is off. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdir, mkdtemp, rm, stat, truncate, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { VmError } from "#host/vm/error.ts";
import { locateImage } from "#host/vm/locate-image.ts";
import { type StartVmOptions, startVm } from "#host/vm/start.ts";
import { type ImagePartName, sha256OfFile } from "#image/manifest.ts";
import { packSquashfs } from "#image/reproducible.ts";
import { bootTimeoutMs, useOwnStateRoot } from "./fixture.ts";

let directory: string;

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), "vmapp-stage0-"));
  useOwnStateRoot();
});

afterAll(async () => {
  await rm(directory, { recursive: true, force: true });
});

/** A copy of the built image in which one part is another file. */
async function imageWith(part: ImagePartName, file: string): Promise<string> {
  const { manifest, paths } = await locateImage();
  const copy = await mkdtemp(join(directory, "image-"));
  const changed = structuredClone(manifest);
  for (const name of Object.keys(paths) as ImagePartName[]) {
    const source = name === part ? file : paths[name];
    const target = join(copy, changed.parts[name].file);
    await Bun.write(target, Bun.file(source));
    changed.parts[name].size = (await stat(target)).size;
    changed.parts[name].sha256 = await sha256OfFile(target);
  }
  await writeFile(join(copy, "manifest.json"), JSON.stringify(changed));
  return copy;
}

async function bootFailure(options: StartVmOptions): Promise<string> {
  const failure = await startVm({ timeoutMs: bootTimeoutMs, ...options }).then(
    async (vm) => {
      await vm.stop();
      return undefined;
    },
    (error: unknown) => error,
  );
  if (!(failure instanceof VmError)) throw new Error(`expected a VmError, got ${failure}`);
  return failure.message;
}

test(
  "a base image that is no file system is named with its disk, and the host quotes it",
  async () => {
    const noise = join(directory, "noise");
    await writeFile(noise, "");
    await truncate(noise, 1 << 20);
    const message = await bootFailure({ image: await imageWith("base", noise) });
    expect(message).toMatch(/vmapp-stage0: error [\d.]+ cannot mount the base image \/dev\/vd[a-z] as erofs: /);
    expect(message).not.toContain("Kernel panic");
  },
  bootTimeoutMs,
);

test(
  "a runtime without vmapp-init is named with its disk, and the host quotes it",
  async () => {
    const empty = join(directory, "empty");
    await mkdir(empty);
    const target = join(directory, "empty.squashfs");
    await packSquashfs({ source: empty, target, compression: "lz4", blockSize: 131072 });
    const message = await bootFailure({ image: await imageWith("runtime", target) });
    expect(message).toMatch(/vmapp-stage0: error [\d.]+ the runtime \/dev\/vd[a-z] has no program bin\/vmapp-init/);
    expect(message).not.toContain("Kernel panic");
  },
  bootTimeoutMs,
);

test(
  "a session disk without a file system is named, and is not taken for memory",
  async () => {
    const blank = join(directory, "blank");
    await writeFile(blank, "");
    await truncate(blank, 16 << 20);
    const message = await bootFailure({ sessionDisk: { path: blank } });
    expect(message).toMatch(/vmapp-stage0: error [\d.]+ cannot mount the session disk \/dev\/vd[a-z] as ext4: /);
  },
  bootTimeoutMs,
);

/** The Debian packages that an image is made of: fetched, unpacked and written down. */

import { existsSync } from "node:fs";
import { mkdir, readFile, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import { architectures, type GuestArchitecture } from "#image/arch.ts";
import { type DebianPackage, openArchive, unpackPackage } from "#image/debian.ts";

const unpackedSchema = z.object({
  name: z.string(),
  version: z.string(),
  /** directory that holds the package's files */
  directory: z.string(),
});
const recordSchema = z.object({
  kernel: unpackedSchema,
  busybox: unpackedSchema,
  libc: unpackedSchema,
  terminfo: unpackedSchema,
});

export type UnpackedPackage = z.infer<typeof unpackedSchema>;
export type ImagePackages = z.infer<typeof recordSchema>;

/** Fetches and unpacks the packages of an image and writes the record that {@link readPackages} reads. */
export async function preparePackages(architecture: GuestArchitecture, cacheDirectory: string): Promise<void> {
  const { debian, kernelPackage } = architectures[architecture];
  const archive = await openArchive({ suite: "bookworm", architecture: debian }, cacheDirectory);
  const unpack = (debianPackage: DebianPackage) =>
    unpackOnce(debianPackage, join(workDirectory(architecture, cacheDirectory), "packages"));

  const kernelName = (await archive.fetch(kernelPackage)).depends.find((name) => name.startsWith("linux-image-"));
  if (kernelName === undefined) throw new Error(`Debian's ${kernelPackage} depends on no kernel`);
  const record: ImagePackages = {
    kernel: await unpack(await archive.fetch(kernelName)),
    busybox: await unpack(await archive.fetch("busybox-static")),
    libc: await unpack(await archive.fetch("libc6")),
    terminfo: await unpack(await archive.fetch("ncurses-base")),
  };
  const file = recordFile(architecture, cacheDirectory);
  await writeFile(`${file}.partial`, `${JSON.stringify(record, null, 2)}\n`);
  await rename(`${file}.partial`, file);
}

/** The packages that {@link preparePackages} left in the cache. */
export async function readPackages(architecture: GuestArchitecture, cacheDirectory: string): Promise<ImagePackages> {
  return recordSchema.parse(JSON.parse(await readFile(recordFile(architecture, cacheDirectory), "utf8")));
}

/** Fetches and unpacks a package of Debian's sid for this machine. */
export async function prepareTool(name: string, debianArchitecture: string, cacheDirectory: string) {
  const archive = await openArchive({ suite: "sid", architecture: debianArchitecture }, cacheDirectory);
  return await unpackOnce(await archive.fetch(name), join(cacheDirectory, "tools"));
}

/** Where the parts of an image are prepared. */
export function workDirectory(architecture: GuestArchitecture, cacheDirectory: string): string {
  return join(cacheDirectory, "image", architecture);
}

function recordFile(architecture: GuestArchitecture, cacheDirectory: string): string {
  return join(workDirectory(architecture, cacheDirectory), "packages.json");
}

async function unpackOnce(debianPackage: DebianPackage, parent: string): Promise<UnpackedPackage> {
  const { name, version } = debianPackage;
  const directory = join(parent, `${name}_${version.replaceAll(":", "%3a")}`);
  if (!existsSync(directory)) {
    await mkdir(parent, { recursive: true });
    await unpackPackage(debianPackage, `${directory}.partial`);
    await rename(`${directory}.partial`, directory);
  }
  return { name, version, directory };
}

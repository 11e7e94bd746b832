/**
 * The demo image: the base image with the example apps in it. Notes is the app that PID 1 runs; hasher and bench lie beside
 * it, and run instead when the boot config says so. The other parts are those of the image it is built on.
 */
import { execFileSync } from "node:child_process";
import { chmod, copyFile, cp, link, mkdir, rename, rm, stat, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { architectures, type GuestArchitecture } from "#image/arch.ts";
import { manifestFileName, openImage, parseManifest, sha256OfFile } from "#image/manifest.ts";
import { packSquashfs } from "#image/reproducible.ts";

const notes = {
  argv: ["/opt/vmapp/bin/vmapp-init", "/opt/app/app.js"],
  // The guest's own executable is a Bun, which runs a script when it is told to be one.
  env: { BUN_BE_BUN: "1" },
  cwd: "/opt/app",
  restart: "on-failure",
};
const bench = { ...notes, argv: ["/opt/vmapp/bin/vmapp-init", "/opt/bench/app.js"], cwd: "/opt/bench" };
const hasher = { argv: ["/opt/hasher/hasher"], user: "nobody", data: "/var/lib/hasher", restart: "always" };

/**
 * @param baseStaging directory that the base image was packed from
 * @param staging is made anew
 */
export async function buildDemo({
  architecture,
  baseImage,
  baseStaging,
  staging,
  target,
}: {
  architecture: GuestArchitecture;
  baseImage: string;
  baseStaging: string;
  staging: string;
  target: string;
}): Promise<void> {
  await rm(staging, { recursive: true, force: true });
  await cp(baseStaging, staging, { recursive: true, verbatimSymlinks: true, preserveTimestamps: true });
  await buildApps(architecture, staging);
  await mkdir(target, { recursive: true });
  const { manifest, paths } = await openImage(baseImage);
  for (const name of ["kernel", "initramfs", "runtime"] as const)
    await linkOrCopy(paths[name], join(target, manifest.parts[name].file));
  const base = join(target, manifest.parts.base.file);
  await packSquashfs({ source: staging, target: base, compression: "zstd", blockSize: 131072 });
  const parts = {
    ...manifest.parts,
    base: { ...manifest.parts.base, size: (await stat(base)).size, sha256: await sha256OfFile(base) },
  };
  const file = join(target, manifestFileName);
  const text = `${JSON.stringify({ ...manifest, parts }, null, 2)}\n`;
  parseManifest(text, file);
  await writeFile(`${file}.partial`, text);
  await rename(`${file}.partial`, file);
}

async function buildApps(architecture: GuestArchitecture, staging: string): Promise<void> {
  const built = `${staging}.apps`;
  await rm(built, { recursive: true, force: true });
  const compiler = architectures[architecture].cxx.replace(/g\+\+$/, "gcc");
  execFileSync(process.execPath, [join(import.meta.dir, "../examples/build.ts"), built, compiler], {
    stdio: "inherit",
  });
  for (const [from, to, manifest] of [
    ["notes", "opt/app", notes],
    ["bench", "opt/bench", bench],
    ["hasher", "opt/hasher", hasher],
  ] as const) {
    await mkdir(dirname(join(staging, to)), { recursive: true });
    await cp(join(built, from), join(staging, to), { recursive: true });
    await writeFile(join(staging, to, "manifest.json"), `${JSON.stringify(manifest, null, 2)}\n`);
    await chmod(join(staging, to), 0o755);
  }
  // A folder of its own, for a start without one that is shared.
  await mkdir(join(staging, "srv/notes"), { recursive: true });
  await rm(built, { recursive: true, force: true });
}

async function linkOrCopy(source: string, target: string): Promise<void> {
  await rm(target, { force: true });
  await link(source, target).catch(() => copyFile(source, target));
}

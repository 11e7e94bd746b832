/** The kernel and the initramfs with stage 0. */

import { chmod, copyFile, cp, mkdir, readdir, readFile, rename, rm, symlink, writeFile } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { runCommand } from "#image/command.ts";
import { loadOrder, type ModuleGroup, moduleGroups, parseModuleIndex } from "#image/modules.ts";
import type { ImagePackages } from "#image/packages.ts";
import { normaliseModes, packInitramfs } from "#image/reproducible.ts";

/** Programs that stage0/init calls. */
const stage0Applets = [
  "sh",
  "mount",
  "mkdir",
  "chmod",
  "insmod",
  "dd",
  "ip",
  "chroot",
  "usleep",
  "sleep",
  "sync",
].concat(["poweroff", "switch_root", "env"]);

const sourceDirectory = join(import.meta.dir, "stage0");

/** Copies the kernel to `target`. */
export async function buildKernel(packages: ImagePackages, target: string): Promise<void> {
  const boot = join(packages.kernel.directory, "boot");
  const kernel = (await readdir(boot)).find((name) => /^vmlinu[xz]-/.test(name));
  if (kernel === undefined) throw new Error(`there is no kernel in ${boot}`);
  await mkdir(dirname(target), { recursive: true });
  await copyFile(join(boot, kernel), `${target}.partial`);
  await chmod(`${target}.partial`, 0o644);
  await rename(`${target}.partial`, target);
}

/** Module paths by group, in load order, relative to the kernel's modules directory. */
export async function resolveModules(packages: ImagePackages): Promise<Record<ModuleGroup, string[]>> {
  const modules = await modulesDirectory(packages);
  const release = basename(modules);
  await runCommand(["depmod", "--basedir", packages.kernel.directory, release]);
  const index = parseModuleIndex(
    await readFile(join(modules, "modules.dep"), "utf8"),
    await readFile(join(modules, "modules.builtin"), "utf8"),
  );
  const resolved = {} as Record<ModuleGroup, string[]>;
  const boot = new Set(loadOrder(index, moduleGroups.boot));
  for (const [group, names] of Object.entries(moduleGroups) as [ModuleGroup, readonly string[]][]) {
    const order = loadOrder(index, names);
    // The boot group is loaded before any other; loading a module twice is an error.
    resolved[group] = group === "boot" ? order : order.filter((path) => !boot.has(path));
  }
  return resolved;
}

/** Packs busybox, the modules and stage0/init into an initramfs. */
export async function buildInitramfs(packages: ImagePackages, staging: string, target: string): Promise<void> {
  await rm(staging, { recursive: true, force: true });
  for (const directory of ["bin", "dev", "modules"]) await mkdir(join(staging, directory), { recursive: true });
  await copyFile(join(packages.busybox.directory, "bin/busybox"), join(staging, "bin/busybox"));
  for (const applet of stage0Applets) await symlink("busybox", join(staging, "bin", applet));
  await copyFile(join(sourceDirectory, "init"), join(staging, "init"));

  const modules = await modulesDirectory(packages);
  for (const [group, paths] of Object.entries(await resolveModules(packages))) {
    for (const path of paths) await cp(join(modules, path), join(staging, "modules", basename(path)));
    await writeFile(join(staging, "modules", group), paths.map((path) => `${basename(path)}\n`).join(""));
  }
  await normaliseModes(staging);
  await chmod(join(staging, "init"), 0o755);
  await packInitramfs(staging, target);
}

async function modulesDirectory(packages: ImagePackages): Promise<string> {
  const parent = join(packages.kernel.directory, "lib/modules");
  const [release, ...others] = await readdir(parent);
  if (release === undefined || others.length > 0) throw new Error(`${parent} must hold the modules of one kernel`);
  return join(parent, release);
}

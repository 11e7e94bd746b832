/** Builds one part of an image: `bun image/build.ts STEP [ARCHITECTURE]`. The Makefile says when each step is due. */

import { chmod, copyFile, mkdir, rename, stat, writeFile } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { match } from "ts-pattern";
import { architectures, commonKernelParameters, guestArchitecture } from "#image/arch.ts";
import { buildBase } from "#image/base.ts";
import { runCommand } from "#image/command.ts";
import { buildDemo } from "#image/demo.ts";
import { buildInitramfs, buildKernel, resolveModules } from "#image/kernel.ts";
import { type ImageManifest, manifestFileName, manifestFormat, parseManifest, sha256OfFile } from "#image/manifest.ts";
import { preparePackages, prepareTool, readPackages, workDirectory } from "#image/packages.ts";
import { progress } from "#image/progress.ts";
import { buildInterpreter, buildPtyAddon, buildRuntime, compileInit, npmVersion } from "#image/runtime.ts";

const steps = [
  "packages",
  "kernel",
  "initramfs",
  "base",
  "interpreter",
  "init",
  "pty",
  "runtime",
  "manifest",
  "demo",
  "tools",
];

const projectDirectory = resolve(import.meta.dir, "..");
const cache = join(projectDirectory, ".cache");
const [step = "", architectureName = "x64"] = process.argv.slice(2);
const architecture = guestArchitecture(architectureName);
const work = workDirectory(architecture, cache);
const image = join(projectDirectory, "dist/image", architecture);
const files = {
  kernel: join(image, "kernel"),
  initramfs: join(image, "initramfs"),
  runtime: join(image, "runtime.squashfs"),
  base: join(image, "base.squashfs"),
};
/** The program, and the Workers that it starts by file name. */
const initEntries = ["init/main.ts", "init/filesystem-worker.ts", "sys/poller-worker.ts"];
const interpreter = join(work, "bun");
const init = join(work, "vmapp-init");
const ptyAddon = join(work, "pty.node");

try {
  await mkdir(work, { recursive: true });
  progress(`${step} (${architecture})`);
  await match(step)
    .with("packages", () => preparePackages(architecture, cache))
    .with("kernel", async () => buildKernel(await readPackages(architecture, cache), files.kernel))
    .with("initramfs", async () =>
      buildInitramfs(await readPackages(architecture, cache), join(work, "initramfs"), files.initramfs),
    )
    .with("base", async () => buildBase(await readPackages(architecture, cache), join(work, "base"), files.base))
    .with("interpreter", () => buildInterpreter(architecture, interpreter))
    .with("init", () => compileInit(architecture, initEntries, interpreter, init))
    .with("pty", () => buildPtyAddon(architecture, join(work, "node-pty"), ptyAddon))
    .with("runtime", async () => {
      const packages = await readPackages(architecture, cache);
      await buildRuntime(architecture, { packages, init, ptyAddon }, join(work, "runtime"), files.runtime);
    })
    .with("manifest", writeManifest)
    .with("demo", () =>
      buildDemo({
        architecture,
        baseImage: image,
        baseStaging: join(work, "base"),
        staging: join(work, "demo"),
        target: join(projectDirectory, "dist/image", `demo-${architecture}`),
      }),
    )
    .with("tools", installTools)
    .otherwise(() => {
      throw new Error(`unknown step "${step}"; known: ${steps.join(", ")}`);
    });
} catch (error) {
  progress(`${step} failed: ${error instanceof Error ? error.message : error}`);
  process.exitCode = 1;
}

async function writeManifest(): Promise<void> {
  const packages = await readPackages(architecture, cache);
  const versionsOf = (...names: (keyof typeof packages)[]) =>
    Object.fromEntries(names.map((name) => [packages[name].name, packages[name].version]));
  const npmVersions = { bun: await npmVersion("bun"), "node-pty": await npmVersion("node-pty") };
  const part = async (file: string, versions: Record<string, string>) => ({
    file: file.slice(image.length + 1),
    size: (await stat(file)).size,
    sha256: await sha256OfFile(file),
    versions,
  });
  const { console, kernelParameters } = architectures[architecture];
  const manifest: ImageManifest = {
    format: manifestFormat,
    architecture,
    kernelParameters: [`console=${console}`, ...commonKernelParameters, ...kernelParameters],
    parts: {
      kernel: await part(files.kernel, versionsOf("kernel")),
      initramfs: await part(files.initramfs, versionsOf("kernel", "busybox")),
      runtime: await part(files.runtime, { ...npmVersions, ...versionsOf("libc", "busybox") }),
      base: await part(files.base, versionsOf("busybox", "terminfo")),
    },
    modules: await resolveModules(packages),
  };
  const file = join(image, manifestFileName);
  const text = `${JSON.stringify(manifest, null, 2)}\n`;
  parseManifest(text, file);
  await writeFile(`${file}.partial`, text);
  await rename(`${file}.partial`, file);
}

/** vhost-device-vsock gives guests a vsock device on hosts whose kernel has none to offer. Only sid has it. */
async function installTools(): Promise<void> {
  const name = "vhost-device-vsock";
  const debianArchitecture = (await runCommand(["dpkg", "--print-architecture"])).trim();
  const unpacked = await prepareTool(name, debianArchitecture, cache);
  const target = join(projectDirectory, "dist/tools", name);
  await mkdir(dirname(target), { recursive: true });
  await copyFile(join(unpacked.directory, "usr/bin", name), `${target}.partial`);
  await chmod(`${target}.partial`, 0o755);
  await runCommand([`${target}.partial`, "--version"]);
  await rename(`${target}.partial`, target);
}

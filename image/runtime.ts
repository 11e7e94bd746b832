/**
 * The runtime: vmapp-init with its own dynamic loader and C library, and node-pty's addon, as one read-only file
 * system for /opt/vmapp. It runs in any root file system, also in an empty one.
 */

import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { chmod, copyFile, cp, mkdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { architectures, type GuestArchitecture } from "#image/arch.ts";
import { runCommand } from "#image/command.ts";
import type { ImagePackages } from "#image/packages.ts";
import { normaliseModes, packSquashfs } from "#image/reproducible.ts";

const projectDirectory = resolve(import.meta.dir, "..");
const mountPoint = "/opt/vmapp";

/** Libraries that Bun and the addon name as needed; the loader comes on top. */
const libraries = ["libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0"];

/** Bun's own executable for the guest, with the loader and library path of the runtime written into it. */
export async function buildInterpreter(architecture: GuestArchitecture, target: string): Promise<void> {
  const { bunPackage, loader } = architectures[architecture];
  await mkdir(dirname(target), { recursive: true });
  await copyFile(bunExecutable(architecture, bunPackage), `${target}.partial`);
  await chmod(`${target}.partial`, 0o755);
  const library = `${mountPoint}/lib`;
  await runCommand([
    "patchelf",
    "--set-interpreter",
    `${library}/${loader}`,
    "--set-rpath",
    library,
    `${target}.partial`,
  ]);
  await rename(`${target}.partial`, target);
}

/** Compiles init/main.ts and its Workers into `target`, on top of the prepared interpreter. */
export async function compileInit(
  architecture: GuestArchitecture,
  entries: readonly string[],
  interpreter: string,
  target: string,
): Promise<void> {
  await mkdir(dirname(target), { recursive: true });
  const buildId = await guestBuildId();
  await runCommand(
    [
      process.execPath,
      "build",
      "--compile",
      "--minify",
      "--bytecode",
      // Nothing that lies in a guest's root directory is ours to run, least of all as PID 1.
      "--no-compile-autoload-dotenv",
      "--no-compile-autoload-bunfig",
      `--target=${architectures[architecture].bunTarget}`,
    ]
      .concat(`--compile-executable-path=${interpreter}`, `--outfile=${target}.partial`)
      .concat("--define", `VMAPP_BUILD_ID=${JSON.stringify(buildId)}`)
      .concat(entries),
    { cwd: projectDirectory },
  );
  await chmod(`${target}.partial`, 0o755);
  await rename(`${target}.partial`, target);
}

/** Twelve hexadecimal digits that stand for the sources of vmapp-init and the versions of its dependencies. */
async function guestBuildId(): Promise<string> {
  const hash = createHash("sha256");
  const sources = await Array.fromAsync(
    new Bun.Glob("{init,agent,sys,protocol}/**/*.ts").scan({ cwd: projectDirectory }),
  );
  for (const path of [...sources.toSorted(), "package.json", "package-lock.json"])
    hash.update(`${path}\0`).update(await readFile(join(projectDirectory, path)));
  return hash.digest("hex").slice(0, 12);
}

/** Builds node-pty's addon so that it needs nothing but the C library. */
export async function buildPtyAddon(architecture: GuestArchitecture, staging: string, target: string): Promise<void> {
  await rm(staging, { recursive: true, force: true });
  await cp(join(projectDirectory, "node_modules/node-pty"), staging, { recursive: true, dereference: true });
  await rm(join(staging, "build"), { recursive: true, force: true });
  // npm puts its own node-gyp on the PATH of the scripts that it runs.
  await writeFile(
    join(staging, "package.json"),
    JSON.stringify({ name: "pty-addon", private: true, scripts: { build: "node-gyp rebuild" } }),
  );
  await runCommand(["npm", "run", "build", "--", `--arch=${architecture}`, ...(await nodeHeaders())], {
    cwd: staging,
    env: {
      ...process.env,
      CXX: architectures[architecture].cxx,
      LDFLAGS: "-static-libstdc++ -static-libgcc -Wl,--as-needed,--strip-debug",
    },
  });
  await mkdir(dirname(target), { recursive: true });
  await copyFile(join(staging, "build/Release/pty.node"), `${target}.partial`);
  await runCommand(["patchelf", "--remove-rpath", `${target}.partial`]);
  await rename(`${target}.partial`, target);
}

/** Tells node-gyp of the headers that came with Node; where there are none, it fetches them. */
async function nodeHeaders(): Promise<string[]> {
  const prefix = (await runCommand(["node", "-p", 'require("node:path").resolve(process.execPath, "../..")'])).trim();
  return existsSync(join(prefix, "include/node/node_api.h")) ? [`--nodedir=${prefix}`] : [];
}

export interface RuntimeParts {
  readonly packages: ImagePackages;
  /** compiled vmapp-init */
  readonly init: string;
  /** node-pty's addon */
  readonly ptyAddon: string;
}

/** Lays the runtime out in `staging` and packs it. */
export async function buildRuntime(
  architecture: GuestArchitecture,
  { packages, init, ptyAddon }: RuntimeParts,
  staging: string,
  target: string,
): Promise<void> {
  const { libraryDirectory, loader } = architectures[architecture];
  await rm(staging, { recursive: true, force: true });
  for (const directory of ["bin", "lib", "libexec"]) await mkdir(join(staging, directory), { recursive: true });
  await copyFile(init, join(staging, "bin/vmapp-init"));
  // The agent tells its hash to hosts; to compute it anew takes seconds where the processor is emulated.
  await writeFile(join(staging, "bin/vmapp-init.sha256"), `${await sha256Of(init)}\n`);
  await copyFile(join(packages.busybox.directory, "bin/busybox"), join(staging, "bin/busybox"));
  await copyFile(join(import.meta.dir, "stage0/udhcpc"), join(staging, "libexec/udhcpc"));
  await copyFile(ptyAddon, join(staging, "lib/pty.node"));
  for (const library of [loader, ...libraries])
    await copyFile(join(packages.libc.directory, libraryDirectory, library), join(staging, "lib", library));
  await chmod(join(staging, "libexec/udhcpc"), 0o755);
  for (const file of ["bin/vmapp-init", "lib/pty.node"]) await checkNeeded(join(staging, file), [loader, ...libraries]);
  await normaliseModes(staging);
  await packSquashfs({ source: staging, target, compression: "lz4", blockSize: 131072 });
}

async function sha256Of(path: string): Promise<string> {
  return createHash("sha256")
    .update(await readFile(path))
    .digest("hex");
}

/** Fails when a file needs a library that the runtime does not carry. */
async function checkNeeded(file: string, carried: readonly string[]): Promise<void> {
  const needed = (await runCommand(["patchelf", "--print-needed", file])).split("\n").filter((name) => name !== "");
  const missing = needed.filter((name) => !carried.includes(name));
  if (missing.length > 0) throw new Error(`${file} needs ${missing.join(", ")}, which the runtime does not carry`);
}

/** Version of an installed npm package. */
export async function npmVersion(name: string): Promise<string> {
  const file = join(projectDirectory, "node_modules", name, "package.json");
  return (JSON.parse(await readFile(file, "utf8")) as { version: string }).version;
}

function bunExecutable(architecture: GuestArchitecture, bunPackage: string): string {
  const candidates = [join(projectDirectory, "node_modules", bunPackage, "bin/bun")];
  // The bun package moves the executable of this machine's own architecture into itself when it is installed.
  if (process.arch === architecture) candidates.push(join(projectDirectory, "node_modules/bun/bin/bun.exe"));
  const found = candidates.find((file) => existsSync(file));
  if (found === undefined)
    throw new Error(`Bun's executable for ${architecture} was not found: ${candidates.join(", ")}`);
  return found;
}

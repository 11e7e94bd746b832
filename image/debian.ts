/**
 * Debian packages through a private apt directory: the machine's own mirrors, keyring, proxy and credentials are used,
 * nothing of the machine's apt state is read or changed, and root is not needed. Indexes are fetched once and packages
 * are kept by version, so a second build works without a network.
 */

import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { runCommand } from "#image/command.ts";
import { progress } from "#image/progress.ts";

export type Suite = "bookworm" | "sid";

export interface DebianArchive {
  readonly suite: Suite;
  /** Debian's name of the architecture, e.g. `amd64` */
  readonly architecture: string;
}

export interface DebianPackage {
  readonly name: string;
  readonly version: string;
  /** absolute path of the .deb file */
  readonly file: string;
  /** names in its Depends field, without versions and alternatives */
  readonly depends: readonly string[];
}

const debianKeyring = "/usr/share/keyrings/debian-archive-keyring.gpg";

/** Makes an archive ready to be asked: writes the private apt directory and fetches the index unless it is there. */
export async function openArchive(archive: DebianArchive, cacheDirectory: string) {
  const directory = resolve(cacheDirectory, "apt", `${archive.architecture}-${archive.suite}`);
  for (const part of ["etc/parts", "state/lists/partial", "cache/archives/partial", "debs"])
    await mkdir(join(directory, part), { recursive: true });
  await writeFile(join(directory, "state/status"), "");
  await writeFile(join(directory, "etc/sources.list"), await sourcesList(archive));
  await writeFile(join(directory, "etc/apt.conf"), await aptConfiguration(archive, directory));

  const env = { ...process.env, APT_CONFIG: join(directory, "etc/apt.conf"), LC_ALL: "C.UTF-8" };
  const stamp = join(directory, "state/index-complete");
  const refresh = async () => {
    progress(`fetching Debian's package index (${archive.suite}, ${archive.architecture})`);
    await rm(stamp, { force: true });
    await runCommand(["apt-get", "update", "-q", "-o", "APT::Update::Error-Mode=any"], {
      env,
      visible: process.stderr.isTTY,
    });
    await writeFile(stamp, "");
  };
  if (!existsSync(stamp)) await refresh();

  return {
    /** Fetches one package (its candidate version) unless it is already here. */
    async fetch(name: string): Promise<DebianPackage> {
      try {
        return await fetchPackage(name, archive, directory, env);
      } catch {
        // An index that was fetched some days ago names versions that the mirror has since replaced.
        await refresh();
        return await fetchPackage(name, archive, directory, env);
      }
    },
  };
}

async function fetchPackage(
  name: string,
  archive: DebianArchive,
  directory: string,
  env: Record<string, string | undefined>,
): Promise<DebianPackage> {
  const record = await runCommand(["apt-cache", "show", "--no-all-versions", name], { env });
  const version = controlField(record, "Version");
  const sha256 = controlField(record, "SHA256");
  if (version === undefined || sha256 === undefined)
    throw new Error(`Debian ${archive.suite} has no package "${name}" for ${archive.architecture}`);

  const file = join(directory, "debs", `${name}_${version.replaceAll(":", "%3a")}_${archive.architecture}.deb`);
  if (!existsSync(file) || (await sha256Of(file)) !== sha256) {
    progress(`fetching ${name} ${version}`);
    await rm(file, { force: true });
    await runCommand(["apt-get", "download", "-q", `${name}=${version}`], {
      env,
      cwd: join(directory, "debs"),
      visible: process.stderr.isTTY,
    });
    const uris = await runCommand(["apt-get", "download", "--print-uris", "-qq", `${name}=${version}`], { env });
    const saved = /^'[^']*' (\S+) /m.exec(uris)?.[1];
    if (saved === undefined) throw new Error(`apt-get did not say where it saved ${name}: ${uris}`);
    const savedFile = join(directory, "debs", saved);
    if (savedFile !== file) await runCommand(["mv", savedFile, file]);
    if ((await sha256Of(file)) !== sha256) throw new Error(`${file} does not have the SHA-256 of the signed index`);
  }
  const depends = (controlField(record, "Depends") ?? "")
    .split(",")
    .map((one) => /^\s*([^\s(|:]+)/.exec(one)?.[1])
    .filter((one) => one !== undefined);
  return { name, version, file, depends };
}

/** Unpacks a package below `target`, replacing what was there. */
export async function unpackPackage(debianPackage: DebianPackage, target: string): Promise<void> {
  await rm(target, { recursive: true, force: true });
  await mkdir(target, { recursive: true });
  await runCommand(["dpkg-deb", "-x", debianPackage.file, target]);
}

function controlField(record: string, field: string): string | undefined {
  return new RegExp(`^${field}: (.*)$`, "m").exec(record)?.[1]?.trim();
}

async function sha256Of(file: string): Promise<string> {
  return createHash("sha256")
    .update(await readFile(file))
    .digest("hex");
}

interface ConfiguredSource {
  readonly uri: string;
  readonly release: string;
}

/** What an update of the machine's own index would fetch; asking needs no index and no rights. */
async function configuredSources(): Promise<ConfiguredSource[]> {
  const uris = await runCommand(["apt-get", "update", "--print-uris"]);
  return [...uris.matchAll(/^'([^']+)\/dists\/([^/']+)\/InRelease'/gm)].map(([, uri = "", release = ""]) => ({
    uri,
    release,
  }));
}

/** The machine's Debian mirror and security mirror, pointed at the suite that is wanted. */
async function sourcesList({ suite, architecture }: DebianArchive): Promise<string> {
  const isDebianRelease = /^(?:[a-z]+)(?:-updates|-security)?$/;
  const sources = (await configuredSources()).filter(
    ({ uri, release }) => isDebianRelease.test(release) && /\/debian(?:-security)?\/?$/.test(uri),
  );
  const main = sources.find(({ release }) => !release.endsWith("-security"));
  const security = sources.find(({ release }) => release.endsWith("-security"));
  const lines: string[] = [];
  const add = async (source: ConfiguredSource, release: string) => {
    const options = [`arch=${architecture}`, ...(await signedBy(source))];
    lines.push(`deb [${options.join(" ")}] ${source.uri} ${release} main`);
  };
  if (main === undefined)
    throw new Error("apt on this machine has no mirror of Debian configured (/etc/apt/sources.list)");
  await add(main, suite);
  if (suite === "bookworm") {
    await add(main, `${suite}-updates`);
    // Where the machine takes no security updates, neither does the image.
    if (security !== undefined) await add(security, `${suite}-security`);
  }
  return `${lines.join("\n")}\n`;
}

/** The keyrings that the machine's configuration names for this mirror, else Debian's own. */
async function signedBy({ uri }: ConfiguredSource): Promise<string[]> {
  for (const file of await sourceFiles()) {
    const text = await readFile(file, "utf8");
    if (!text.includes(uri)) continue;
    const named = [...text.matchAll(/^[^#\n]*signed-by\s*[:=]\s*(\/[^\s\]]+)/gim)].map((match) => match[1]);
    if (named.length > 0) return [`signed-by=${[...new Set(named)].join(",")}`];
  }
  return existsSync(debianKeyring) ? [`signed-by=${debianKeyring}`] : [];
}

async function sourceFiles(): Promise<string[]> {
  const directory = "/etc/apt/sources.list.d";
  const names = existsSync(directory) ? await readdir(directory) : [];
  const files = names.filter((name) => /\.(?:list|sources)$/.test(name)).map((name) => join(directory, name));
  return [...files, "/etc/apt/sources.list"].filter((file) => existsSync(file));
}

/**
 * apt reads the file in APT_CONFIG before all others, so it can point apt away from the machine's configuration. How the
 * machine reaches its mirrors (proxy, retries, certificates) is copied over; its hooks and further indexes are not.
 */
async function aptConfiguration({ architecture }: DebianArchive, directory: string): Promise<string> {
  const machine = await runCommand(["apt-config", "dump"]);
  const copied = machine
    .split("\n")
    .filter((line) => /^(?:Acquire::|Dir::Bin::methods )/.test(line))
    .filter((line) => !/^Acquire::(?:IndexTargets|Changelogs|CompressionTypes|Languages)\b/.test(line))
    .filter((line) => !/ "";$/.test(line));
  const own = {
    "Dir::Etc::main": "/dev/null",
    "Dir::Etc::parts": join(directory, "etc/parts"),
    "Dir::Etc::sourcelist": join(directory, "etc/sources.list"),
    "Dir::Etc::sourceparts": "/dev/null",
    "Dir::Etc::preferences": "/dev/null",
    "Dir::Etc::preferencesparts": "/dev/null",
    "Dir::State": join(directory, "state"),
    "Dir::State::status": join(directory, "state/status"),
    "Dir::Cache": join(directory, "cache"),
    "APT::Architecture": architecture,
    "APT::Sandbox::User": "root",
    "APT::Get::AllowUnauthenticated": "false",
    "Acquire::AllowInsecureRepositories": "false",
    "Acquire::Languages": "none",
  };
  return [
    ...copied,
    ...Object.entries(own).map(([key, value]) => `${key} "${value}";`),
    `APT::Architectures { "${architecture}"; };`,
    "",
  ].join("\n");
}

/** The base image: a small root file system with busybox, for guests that bring no root of their own. */

import { chmod, copyFile, cp, mkdir, rm, symlink, writeFile } from "node:fs/promises";
import { dirname, join, relative } from "node:path";
import { runCommand } from "#image/command.ts";
import type { ImagePackages } from "#image/packages.ts";
import { normaliseModes, packSquashfs } from "#image/reproducible.ts";

const directories = [
  "dev",
  "etc",
  "home",
  "mnt",
  "opt/vmapp",
  "proc",
  "root",
  "run",
  "sys",
  "tmp",
  "usr/local/bin",
].concat(["usr/share", "var/lib/vmapp", "var/log", "var/tmp"]);

/** Applets that would get in the way: vmapp-init is the init of the guest, and it mounts what is needed. */
const applicationsLeftOut = ["init", "linuxrc"];

const terminals = [
  "ansi",
  "dumb",
  "linux",
  "screen",
  "screen-256color",
  "tmux",
  "tmux-256color",
  "vt100",
  "vt220",
].concat(["xterm", "xterm-256color", "xterm-color"]);

const files: Readonly<Record<string, string>> = {
  "etc/passwd": "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/bin/false\n",
  "etc/group": "root:x:0:\ntty:x:5:\nnogroup:x:65534:\n",
  "etc/shadow": "root:*:::::::\nnobody:*:::::::\n",
  "etc/hosts": "127.0.0.1\tlocalhost\n::1\tlocalhost\n",
  "etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
  "etc/shells": "/bin/sh\n",
  "etc/profile": [
    "export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "PS1='\\u@\\h:\\w\\$ '",
    "",
  ].join("\n"),
  "etc/os-release": 'ID=vmapp\nNAME="vmapp base image"\nPRETTY_NAME="vmapp base image (busybox)"\n',
};

/** Lays the base image out in `staging` and packs it. */
export async function buildBase(packages: ImagePackages, staging: string, target: string): Promise<void> {
  await rm(staging, { recursive: true, force: true });
  for (const directory of directories) await mkdir(join(staging, directory), { recursive: true });

  const busybox = join(packages.busybox.directory, "bin/busybox");
  await mkdir(join(staging, "bin"));
  await copyFile(busybox, join(staging, "bin/busybox"));
  const applets = (await runCommand([busybox, "--list-full"])).trim().split("\n");
  for (const path of applets) {
    const name = path.split("/").at(-1) ?? path;
    if (path === "bin/busybox" || applicationsLeftOut.includes(name)) continue;
    await mkdir(dirname(join(staging, path)), { recursive: true });
    await symlink(relative(dirname(path), "bin/busybox"), join(staging, path));
  }

  for (const [path, content] of Object.entries(files)) await writeFile(join(staging, path), content);
  await symlink("/run/vmapp/resolv.conf", join(staging, "etc/resolv.conf"));
  await symlink("/proc/self/mounts", join(staging, "etc/mtab"));
  await symlink("/run", join(staging, "var/run"));

  for (const terminal of terminals) {
    const entry = join("lib/terminfo", terminal.charAt(0), terminal);
    await mkdir(dirname(join(staging, entry)), { recursive: true });
    await cp(join(packages.terminfo.directory, entry), join(staging, entry), { dereference: true });
  }
  // Programs that were not built by Debian look here.
  await symlink("../../lib/terminfo", join(staging, "usr/share/terminfo"));

  await normaliseModes(staging);
  await chmod(join(staging, "etc/shadow"), 0o600);
  await chmod(join(staging, "root"), 0o700);
  for (const directory of ["tmp", "var/tmp"]) await chmod(join(staging, directory), 0o1777);
  await packSquashfs({ source: staging, target, compression: "zstd", blockSize: 131072 });
}

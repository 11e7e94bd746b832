import { createWriteStream } from "node:fs";
import { mkdtemp, realpath, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, join, posix } from "node:path";
import { pipeline } from "node:stream/promises";
import { Command } from "commander";
import type { GuestFiles, TransferResult } from "../../files.ts";
import { Guest } from "../../guest.ts";
import { note, standardError, standardOutput, writeOut } from "../output.ts";
import { type Place, parsePlace } from "../place.ts";
import { ProgressBar } from "../progress-bar.ts";
import { onStopSignal, type StopSignal, signalStatus } from "../stop-signals.ts";

type GuestPlace = Extract<Place, { kind: "guest" }>;

export function cpCommand(): Command {
  return new Command("cp")
    .description("copy files and folders between this host and a guest")
    .usage("[options] SOURCE... DESTINATION")
    .argument("<places...>", "paths here, TARGET:/path in a guest, or - for standard input or output")
    .option("-q, --quiet", "show no progress, even on a terminal")
    .addHelpText(
      "after",
      `
A folder is copied with all that is in it. Into a folder that exists, the source is put beneath its own name; several
sources need one. A folder becomes a destination that does not exist, with or without a slash at its end. Modes and the
files' times are kept; links to files are followed, other links left out and named.
A file replaces another only once it is whole. A download that was cut is continued by the same command.

Examples:
  vmapp cp notes.txt a:/root/             to the guest named a
  vmapp cp a:/var/log ./logs              a folder, back
  tar -c dir | vmapp cp - a:/tmp/dir.tar
  vmapp cp a:/etc/os-release - | head -1`,
    )
    .action(async (texts: string[], options: { quiet?: true }) => {
      const places = texts.map(parsePlace);
      const destination = places.pop();
      if (destination === undefined || places.length === 0) throw new Error("cp: give a source and a destination");
      const severalSources = places.length > 1;
      for (const source of places) {
        const stoppedBy = await copy({ source, destination, severalSources, quiet: options.quiet ?? false });
        if (stoppedBy === undefined) continue;
        process.exitCode = signalStatus(stoppedBy);
        return;
      }
    });
}

interface Copy {
  readonly source: Place;
  readonly destination: Place;
  readonly severalSources: boolean;
  readonly quiet: boolean;
}

/** Resolves with the signal that ended it, if one did. */
async function copy({ source, destination, severalSources, quiet }: Copy): Promise<StopSignal | undefined> {
  const into = { severalSources, quiet };
  if (source.kind === "guest") {
    if (destination.kind === "stream") return toStdout(source);
    if (destination.kind === "local") return stoppable((stop) => download(source, destination.path, into, stop));
    throw new Error("cp: from guest to guest goes by way of this host; copy twice");
  }
  if (destination.kind !== "guest")
    throw new Error("cp: neither the source nor the destination is in a guest; write TARGET:/path");
  if (source.kind === "stream") return stoppable((stop) => fromStdin(destination, into, stop));
  return upload(source.path, destination, into);
}

/** What has been begun on this host is cleared away when a signal ends the work; a second one ends the program at once. */
async function stoppable(work: (stop: AbortSignal) => Promise<void>): Promise<StopSignal | undefined> {
  const stop = new AbortController();
  let stoppedBy: StopSignal | undefined;
  const undo = onStopSignal((signal) => {
    undo();
    stoppedBy = signal;
    stop.abort();
  });
  try {
    await work(stop.signal);
  } catch (error) {
    if (stoppedBy === undefined) throw error;
  } finally {
    undo();
  }
  return stoppedBy;
}

function filesUntil(stop: AbortSignal, target: string): GuestFiles {
  const { files } = Guest.connect(target);
  stop.addEventListener("abort", () => files.abort());
  return files;
}

interface Into {
  readonly severalSources: boolean;
  readonly quiet: boolean;
}

async function upload(local: string, destination: GuestPlace, { severalSources, quiet }: Into): Promise<undefined> {
  using files = Guest.connect(destination.target).files;
  const there = await files.stat(destination.path);
  const isFolder =
    there?.type === "dir" || (destination.path.endsWith("/") && (severalSources || !(await isDirectory(local))));
  if (severalSources && !isFolder)
    throw new Error(`cp: ${destination.path} is no folder, and there are several sources`);
  const name = basename(await plainPath(local));
  const path = isFolder ? posix.join(destination.path, name) : destination.path;
  using bar = new ProgressBar(local, quiet ? silent : standardError());
  tellSkipped(local, await files.put(local, path, { onProgress: bar.onProgress }));
}

async function download(
  source: GuestPlace,
  local: string,
  { severalSources, quiet }: Into,
  stop: AbortSignal,
): Promise<void> {
  using files = filesUntil(stop, source.target);
  const isFolder =
    (await isDirectory(local)) ||
    (local.endsWith("/") && (severalSources || (await files.stat(source.path))?.type !== "dir"));
  if (severalSources && !isFolder) throw new Error(`cp: ${local} is no folder, and there are several sources`);
  const path = isFolder ? join(local, posix.basename(posix.normalize(source.path))) : local;
  using bar = new ProgressBar(source.path, quiet ? silent : standardError());
  tellSkipped(source.path, await files.get(source.path, path, { onProgress: bar.onProgress }));
}

async function toStdout(source: GuestPlace): Promise<undefined> {
  using files = Guest.connect(source.target).files;
  await files.readInto(source.path, (piece) => writeOut(standardOutput(), piece));
}

/** The size must be known before the first byte is sent, so what comes is laid down first. */
async function fromStdin(destination: GuestPlace, { quiet }: Into, stop: AbortSignal): Promise<void> {
  using files = filesUntil(stop, destination.target);
  if ((await files.stat(destination.path))?.type === "dir")
    throw new Error(`cp: ${destination.path} is a folder; standard input needs the name of a file`);
  const folder = await mkdtemp(join(tmpdir(), "vmapp-cp-"));
  try {
    const spool = join(folder, "stdin");
    await pipeline(process.stdin, createWriteStream(spool, { mode: 0o600 }), { signal: stop });
    using bar = new ProgressBar("-", quiet ? silent : standardError());
    await files.put(spool, destination.path, { mode: 0o644, onProgress: bar.onProgress });
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

async function isDirectory(path: string): Promise<boolean> {
  return (await stat(path).catch(() => undefined))?.isDirectory() ?? false;
}

const silent = { write: () => {} };

/** `.` and `..` have no name of their own. */
async function plainPath(path: string): Promise<string> {
  return /(?:^|\/)\.{1,2}\/?$/.test(path) ? realpath(path) : path;
}

function tellSkipped(root: string, { skipped, notUtf8 }: TransferResult): void {
  for (const path of skipped) note(`left out, neither file nor folder: ${join(root, path)}`);
  if (notUtf8 > 0) note(`left out, names that are not UTF-8: ${notUtf8} in ${root}`);
}

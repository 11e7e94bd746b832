/** The kernel command line of a guest. Runs on Bun and on Node. */

/** Longest command line that Linux takes, in bytes: COMMAND_LINE_SIZE less the closing NUL. */
export const commandLineLimit = 2047;

export interface CommandLineParts {
  /** the image's own words: `kernelParameters` of its manifest */
  readonly kernelParameters: readonly string[];
  /** whether stage 0 insists on a session disk; without it, stage 0 takes memory when it sees no such disk */
  readonly sessionDisk?: boolean;
  /** whether stage 0 puts the layer on a snapshot disk into the session */
  readonly snapshotDisk?: boolean;
  /** further words, e.g. the settings of this boot */
  readonly extra?: readonly string[];
}

/** Joins the words. Throws an error that states the sizes when the kernel would cut the line off. */
export function kernelCommandLine(parts: CommandLineParts): string {
  const words = [...parts.kernelParameters];
  if (parts.sessionDisk === true) words.push("vmapp.session=disk");
  if (parts.snapshotDisk === true) words.push("vmapp.snapshot=disk");
  words.push(...(parts.extra ?? []));
  for (const word of words)
    if (!/^[\x21-\x7e]+$/.test(word)) throw new Error(`"${word}" cannot be a word of the kernel command line`);

  const line = words.join(" ");
  if (line.length > commandLineLimit)
    throw new Error(
      `the kernel command line has ${line.length} bytes; Linux takes ${commandLineLimit}. Leave out some of what this boot adds to it`,
    );
  return line;
}

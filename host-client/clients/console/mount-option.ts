import { isAbsolute, resolve } from "node:path";
import { formatMount, type Mount, parseMount } from "#protocol/console/mount.ts";

export interface MountOption {
  /** a directory on the server's side, or a URL such as `virtiofs://work`; a relative path counts from the current directory */
  readonly source: string;
  /** where it appears to commands: absolute, without a colon */
  readonly guestPath: string;
  /** whether commands only read it; false when absent */
  readonly readOnly?: boolean;
}

/** The mount as it goes to the server. Throws a RangeError for one that has no spelling, before anything is sent. */
export function mountOf({ source, guestPath, readOnly = false }: MountOption): Mount {
  const url = source.includes("://") ? source : `file://${isAbsolute(source) ? source : resolve(source)}`;
  const wanted: Mount = { url, scheme: url.slice(0, url.indexOf("://")), guestPath, readOnly };
  const spelled = formatMount(wanted);
  try {
    const read = parseMount(spelled);
    if (read.url === url && read.guestPath === guestPath && read.readOnly === readOnly) return read;
  } catch (error) {
    throw new RangeError(`the mount ${source} at ${guestPath} cannot be named: ${(error as Error).message}`);
  }
  throw new RangeError(
    `the mount ${source} at ${guestPath} cannot be named: ${JSON.stringify(spelled)} says something else`,
  );
}

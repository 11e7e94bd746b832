import { lstat, realpath } from "node:fs/promises";
import { posix } from "node:path";
import { RequestError, systemFailure } from "../request-error.ts";

/**
 * Which paths a host may name: absolute, without NUL, normalised; and, where a root is configured, beneath it once every
 * link on the way has been followed (companion §11.6).
 */
export class GuestPaths {
  /** `root`: `/` for the whole guest */
  constructor(readonly root: string = "/") {}

  /** A path to act on as it is: a link at its end is the link itself. */
  entry(path: string): Promise<string> {
    return this.#locate(path, posix.dirname);
  }

  /** A path to act on behind a link at its end. */
  target(path: string): Promise<string> {
    return this.#locate(path, (whole) => whole);
  }

  async #locate(path: string, anchor: (path: string) => string): Promise<string> {
    const normal = normalise(path);
    if (this.root === "/") return normal;
    const root = await realpath(this.root);
    if (!isBeneath(await existing(anchor(normal)), root) || !isBeneath(normal, this.root))
      throw new RequestError("denied", `${normal} is outside of the allowed root`);
    return normal;
  }
}

function normalise(path: string): string {
  if (!path.startsWith("/")) throw new RequestError("bad_request", `the path is not absolute: ${path}`);
  if (path.includes("\0")) throw new RequestError("bad_request", "the path has a NUL byte");
  // Half a surrogate pair would be written as U+FFFD, which may name something else.
  if (!path.isWellFormed()) throw new RequestError("bad_request", "the path cannot be expressed in UTF-8");
  const normal = posix.normalize(path);
  return normal.length > 1 && normal.endsWith("/") ? normal.slice(0, -1) : normal;
}

export function isBeneath(path: string, root: string): boolean {
  return root === "/" || path === root || path.startsWith(`${root}/`);
}

/** Where the deepest existing part of the path really is. */
async function existing(path: string): Promise<string> {
  for (let part = path; ; part = posix.dirname(part)) {
    try {
      return await realpath(part);
    } catch (cause) {
      if (part === "/" || Reflect.get(Object(cause), "code") !== "ENOENT") throw systemFailure("realpath", cause);
    }
    // A link that leads nowhere would be followed once something is there.
    const dangling = await lstat(part).then(
      () => true,
      () => false,
    );
    if (dangling) throw new RequestError("denied", `${part} is a link to nowhere`);
  }
}

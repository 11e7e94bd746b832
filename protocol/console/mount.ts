/** A mount as `init` spells it: `<host url>:<guest path>[:<option>]…` (given/console.md, "The trees"). */
import { MemberError } from "./members.ts";

export interface Mount {
  /** where the tree is, on the side that holds it */
  readonly url: string;
  /** the URL's scheme: the kind of the tree */
  readonly scheme: string;
  /** where the tree appears to the session's commands: absolute, as the client spelled it */
  readonly guestPath: string;
  /** whether the session only reads it */
  readonly readOnly: boolean;
}

const schemeEnd = "://";

/** Reads one mount. Throws {@link MemberError} with the rule that was broken and the whole string. */
export function parseMount(text: string): Mount {
  const broken = (rule: string) => new MemberError(`${rule}: ${JSON.stringify(text)}`);
  const schemeLength = text.indexOf(schemeEnd);
  if (schemeLength < 1) throw broken("a mount URL needs a scheme");
  const bodyStart = schemeLength + schemeEnd.length;

  let rest = text.slice(bodyStart);
  let readOnly = false;
  let guestPath: string | undefined;
  // From the right; of several options the leftmost is read last and wins.
  while (guestPath === undefined) {
    const colon = rest.lastIndexOf(":");
    if (colon < 0) throw broken("a mount needs a guest path to appear at");
    const last = rest.slice(colon + 1);
    rest = rest.slice(0, colon);
    if (last.startsWith("/")) guestPath = last;
    else if (last === "ro") readOnly = true;
    else if (last === "rw") readOnly = false;
    else throw broken("a mount trails an absolute guest path with `ro` or `rw`");
  }
  if (rest === "") throw broken("a mount URL needs something after its scheme");
  return { url: text.slice(0, bodyStart) + rest, scheme: text.slice(0, schemeLength), guestPath, readOnly };
}

/** The string that {@link parseMount} reads as this mount; `rw` is left out. */
export function formatMount({ url, guestPath, readOnly }: Mount): string {
  return `${url}:${guestPath}${readOnly ? ":ro" : ""}`;
}

/** The guest path without the slashes that name nothing: two spellings of one place are equal then. */
export function guestPlaceOf({ guestPath }: Mount): string {
  return `/${guestPath
    .split("/")
    .filter((part) => part !== "")
    .join("/")}`;
}

/** What follows the scheme, as it is written: no percent-decoding. */
export function urlBody({ url, scheme }: Mount): string {
  return url.slice(scheme.length + schemeEnd.length);
}

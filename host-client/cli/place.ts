/** A path on this host or in a guest, as it is written on the command line. */
export type Place =
  | { readonly kind: "local"; readonly path: string }
  /** standard input or output */
  | { readonly kind: "stream" }
  | { readonly kind: "guest"; readonly target: string; readonly path: string };

/**
 * Reads `TARGET:/path`, `-` or a local path. A local path with a colon is written with a slash before the colon, as `./a:b`.
 * Throws for a path in a guest that is not absolute.
 */
export function parsePlace(text: string): Place {
  if (text === "-") return { kind: "stream" };
  const scheme = /^(?:vsock|hybrid|unix):/.exec(text)?.[0].length ?? 0;
  const colon = scheme === 0 ? text.indexOf(":") : text.indexOf(":", scheme);
  const slash = text.indexOf("/");
  if (colon <= 0 || (scheme === 0 && slash >= 0 && slash < colon)) return { kind: "local", path: text };
  const target = text.slice(0, colon);
  const path = text.slice(colon + 1);
  if (!path.startsWith("/")) throw new Error(`"${text}": a path in a guest is absolute, as in ${target}:/tmp`);
  return { kind: "guest", target, path };
}

export function parseGuestPlace(text: string): Extract<Place, { kind: "guest" }> {
  const place = parsePlace(text);
  if (place.kind !== "guest") throw new Error(`"${text}" names nothing in a guest; write TARGET:/path`);
  return place;
}

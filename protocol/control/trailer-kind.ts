/** Names of the kinds of trailer, which trailer.ts makes and checks: apart from that, so that a hello does not load hashes. */

/** `crc32`: 01 and the checksum, big endian. `sha256`: the hash. When called off: zeros. */
export const trailerKinds = ["crc32", "sha256"] as const;
export type TrailerKind = (typeof trailerKinds)[number];

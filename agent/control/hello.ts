import { maxFrameBytes, protocolVersion } from "#protocol/control/limits.ts";
import type { WireMessage } from "#protocol/control/message.ts";
import { helloRequest } from "#protocol/control/requests.ts";
import type { OwnHash } from "./own-hash.ts";
import { ipAddress, osInfo } from "./system.ts";
import type { ReplyFields } from "./writer.ts";

/** the client gives a handshake 8 s */
const hashWaitMs = 5_000;

export interface HelloFacts {
  readonly build: string;
  readonly ownHash: OwnHash;
  readonly caps: () => readonly string[];
  /** undefined where no update can be taken */
  readonly maxUpdateBytes: number | undefined;
  readonly maxPutBytes: number;
}

/** What became of a first frame (companion §4.3). */
export type HelloOutcome =
  | { readonly kind: "accepted"; readonly binHash: string | undefined }
  /** answered with `err`, then closed */
  | { readonly kind: "refused"; readonly fields: ReplyFields }
  /** closed without a word: this is no client of ours */
  | { readonly kind: "foreign" };

export function judgeHello(message: WireMessage): HelloOutcome {
  if (message.t !== "hello") return { kind: "foreign" };
  if (message.v !== protocolVersion)
    return { kind: "refused", fields: { t: "err", msg: "version mismatch", code: "version" } };
  const parsed = helloRequest.safeParse(message);
  if (!parsed.success)
    return { kind: "refused", fields: { t: "err", msg: "hello: bad bin_hash", code: "bad_request" } };
  return { kind: "accepted", binHash: parsed.data.bin_hash || undefined };
}

/** The answer to a hello. An offered hash makes it wait for our own, within a bound that the handshake allows. */
export async function helloFields(facts: HelloFacts, binHash: string | undefined): Promise<ReplyFields> {
  const hash = binHash === undefined ? facts.ownHash.value : await facts.ownHash.within(hashWaitMs);
  return {
    t: "hello",
    name: "vphoned",
    caps: facts.caps(),
    ip: ipAddress(),
    os: osInfo(),
    hash,
    build: facts.build,
    max_update: facts.maxUpdateBytes,
    max_put: facts.maxPutBytes,
    max_frame: maxFrameBytes,
    ...(facts.maxUpdateBytes !== undefined && binHash !== undefined && hash !== undefined && hash !== binHash
      ? { need_update: true }
      : {}),
  };
}

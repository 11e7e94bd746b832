import type { RequestOf } from "#protocol/control/requests.ts";
import type { Log } from "#sys/log.ts";
import { reseedRandom } from "#sys/random.ts";
import { ok, type Reply } from "./reply.ts";
import { systemFailure } from "./request-error.ts";

/** *Extension* `reseed`: so that clones of one snapshot do not share random numbers. Fails unless both steps succeed. */
export function reseed({ seed }: RequestOf<"reseed">, log: Log): Reply {
  try {
    reseedRandom(Buffer.from(seed, "base64"));
  } catch (cause) {
    throw systemFailure("reseed", cause);
  }
  log.info("random number generator reseeded");
  return ok;
}

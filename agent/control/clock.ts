import type { RequestOf } from "#protocol/control/requests.ts";
import { setClock } from "#sys/clock.ts";
import type { Log } from "#sys/log.ts";
import type { Reply } from "./reply.ts";
import { RequestError, systemFailure } from "./request-error.ts";

/** A smaller difference is left alone: it may be the way of the message, and stepping a clock disturbs programs. */
const stepFromMs = 250;

/** 2001 to 2286: what lies outside is no clock */
const plausibleSeconds = { from: 1e9, to: 1e10 };

/** *Extension* `clock_set`: takes the host's time after a pause or restore. Answers the difference and whether it stepped. */
export function adjustClock({ time }: RequestOf<"clock_set">, log: Log): Reply {
  if (time < plausibleSeconds.from || time > plausibleSeconds.to)
    throw new RequestError("bad_request", `clock_set: bad time: ${time}`);
  const offsetMs = time * 1000 - Date.now();
  const stepped = Math.abs(offsetMs) >= stepFromMs;
  if (stepped) {
    try {
      setClock(time * 1000);
    } catch (cause) {
      throw systemFailure("clock_set", cause);
    }
    log.info("clock stepped", { seconds: (offsetMs / 1000).toFixed(3) });
  }
  return { fields: { t: "clock_set", offset: offsetMs / 1000, stepped } };
}

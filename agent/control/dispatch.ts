import { match } from "ts-pattern";
import type { Request } from "#protocol/control/requests.ts";
import { requestPower } from "./power.ts";
import { ok, type Reply, type RequestBody } from "./reply.ts";
import { RequestError } from "./request-error.ts";

/** What the handlers work with; one for the whole service. */
export interface Facilities {
  readonly build: string;
  /** whether PID 1 is ours and may be asked to power off */
  readonly power: boolean;
}

/** From a checked request to its handler. */
export function dispatch(facilities: Facilities, request: Request, _body: RequestBody): Promise<Reply> | Reply {
  return match(request)
    .with({ t: "ping" }, () => ({ fields: { t: "pong" } }))
    .with({ t: "version" }, () => ({ fields: { t: "version", hash: facilities.build } }))
    .with({ t: "power" }, ({ action }) => {
      if (!facilities.power) throw new RequestError("unavailable", "power: PID 1 of this guest is not vmapp-init");
      return { ...ok, after: () => requestPower(action) };
    })
    .otherwise(({ t }) => {
      throw new RequestError("unavailable", `${t} is not available`);
    });
}

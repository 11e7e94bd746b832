/** A connection for one question, for whoever does not want to keep one. */

import type { HelloReply } from "#protocol/control/replies.ts";
import { ports } from "#protocol/ports.ts";
import { dial } from "../../transport/dial.ts";
import type { Address } from "../../transport/target.ts";
import { ControlConnection } from "./connection.ts";
import { power } from "./core.ts";

export interface OneShotOptions {
  readonly target: Address;
  /** milliseconds, for the connect and again for the answer; 8 000 when absent */
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal;
}

/**
 * Asks a guest for its hello, which answers once its agent serves. Throws `TransportError` while nothing listens, `ControlError`
 * when what listens does not answer as it should.
 */
export function probeHello(options: OneShotOptions): Promise<HelloReply> {
  return withConnection(options, async (control) => control.hello);
}

/** Asks PID 1 of the guest to power off or reboot; resolves when the guest has agreed, before it happens. */
export function requestPower({ action, ...options }: OneShotOptions & { action: "off" | "reboot" }): Promise<void> {
  return withConnection(options, (control) => power(control, action));
}

/** Dials, shakes hands, does the work and closes. */
export async function withConnection<T>(
  { target, timeoutMs = 8_000, signal }: OneShotOptions,
  work: (control: ControlConnection) => Promise<T>,
): Promise<T> {
  const connection = await dial({
    target,
    port: ports.control,
    timeoutMs,
    ...(signal === undefined ? {} : { signal }),
  });
  const control = await ControlConnection.open(connection, { timeoutMs });
  try {
    return await work(control);
  } finally {
    control.close();
  }
}

import { check, libc } from "./libc.ts";

const CLOCK_REALTIME = 0;
const nanosPerMilli = 1_000_000n;

/** Sets the system's clock, in milliseconds since the epoch. Errors: SysError (EPERM, EINVAL). */
export function setClock(milliseconds: number): void {
  const nanos = BigInt(Math.round(milliseconds * 1000)) * (nanosPerMilli / 1000n);
  const timespec = new BigInt64Array([nanos / 1_000_000_000n, nanos % 1_000_000_000n]);
  check("clock_settime", libc.clock_settime(CLOCK_REALTIME, timespec), "CLOCK_REALTIME");
}

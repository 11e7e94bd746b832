/** earliest time that a Date can hold, in milliseconds since the epoch */
const earliestMs = -8.64e15;

/** Seconds since the epoch as `utimes` takes them: a negative number would mean the present to it, a date does not. */
export function fileTime(seconds: number): number | Date {
  return seconds < 0 ? new Date(Math.max(earliestMs, seconds * 1000)) : seconds;
}

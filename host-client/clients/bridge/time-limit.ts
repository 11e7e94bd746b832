/** the longest that a timer takes, in milliseconds: about 25 days; a longer one would fire at once */
const longestMs = 2 ** 31 - 1;

/** Calls back after so many milliseconds, with the seconds for people; never where there is no limit, or an infinite one. */
export function startLimit(
  milliseconds: number | undefined,
  onOver: (seconds: number) => void,
): NodeJS.Timeout | undefined {
  if (milliseconds === undefined || milliseconds > longestMs) return undefined;
  return setTimeout(() => onOver(milliseconds / 1000), milliseconds);
}

/** Stable codes beside the human `msg` of an `err` reply. An extension: a stock v1 daemon sends `msg` alone. */
export const errorCodes = [
  /** a field is missing, of the wrong type or out of range */
  "bad_request",
  "unknown_type",
  "not_found",
  "exists",
  /** the path lies outside the allowed root, or the system refuses the access */
  "denied",
  /** the target is a mount point, or holds one */
  "busy",
  /** the system call failed for another reason; `msg` names it */
  "io",
  /** the filesystem has no room for it */
  "no_space",
  /** what was sent, or what would have to be answered, is over a limit */
  "too_large",
  /** the SHA-256 of what arrived is not the one that was announced */
  "hash_mismatch",
  /** known, but not offered by this guest */
  "unavailable",
  "update_failed",
  /** this very program was tried before and did not work */
  "update_rejected",
  "version",
] as const;

export type ErrorCode = (typeof errorCodes)[number];

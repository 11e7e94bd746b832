import type { ErrorCode } from "#protocol/control/error-code.ts";

/** A request that is refused. The session answers it as `err` and goes on. */
export class RequestError extends Error {
  override readonly name = "RequestError";
  /** more than the message may say, where v1 fixes that word by word */
  readonly reason: string | undefined;

  constructor(
    readonly code: ErrorCode,
    message: string,
    { reason, ...options }: { reason?: string; cause?: unknown } = {},
  ) {
    super(message, options);
    this.reason = reason;
  }
}

/** A failure after the announced bytes can no longer be sent: closing the connection is the only honest signal left. */
export class BrokenReplyError extends Error {
  override readonly name = "BrokenReplyError";
}

const codes: Readonly<Record<string, ErrorCode>> = {
  ENOENT: "not_found",
  ENOTDIR: "not_found",
  EEXIST: "exists",
  EISDIR: "exists",
  ENOTEMPTY: "exists",
  EACCES: "denied",
  EPERM: "denied",
  EROFS: "denied",
  ELOOP: "denied",
  ENAMETOOLONG: "bad_request",
  EBUSY: "busy",
  EFBIG: "too_large",
  ENOSPC: "no_space",
  EDQUOT: "no_space",
};

/** What a failed system call becomes on the wire: `open failed: ENOENT: no such file or directory …`. */
export function systemFailure(what: string, cause: unknown): RequestError {
  if (cause instanceof RequestError) return cause;
  const errno = typeof cause === "object" && cause !== null ? Reflect.get(cause, "code") : undefined;
  const code = (typeof errno === "string" ? codes[errno] : undefined) ?? "io";
  return new RequestError(code, `${what} failed: ${cause instanceof Error ? cause.message : String(cause)}`, { cause });
}

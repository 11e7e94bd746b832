/** Exit status of vmapp's own failures, as ssh's. */
export const failureStatus = 255;

/** The message of an error for people, with the causes that its message does not already contain. */
export function describeFailure(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  let text = error.message;
  let cause = error.cause;
  while (cause instanceof Error) {
    if (!text.includes(cause.message)) text += `\n  because: ${cause.message}`;
    cause = cause.cause;
  }
  return text;
}

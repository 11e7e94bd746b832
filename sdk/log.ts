/** What the SDK has to say about the app or the host, on standard error, which is the guest's console. */
export function warn(message: string): void {
  console.error(`vmapp-sdk: ${message}`);
}

export function describe(error: unknown): string {
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}

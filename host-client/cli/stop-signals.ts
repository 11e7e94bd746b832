import { constants } from "node:os";

export type StopSignal = "SIGINT" | "SIGTERM" | "SIGHUP";
const stopSignals: readonly StopSignal[] = ["SIGINT", "SIGTERM", "SIGHUP"];

/** Calls the handler for every SIGINT, SIGTERM and SIGHUP instead of ending the process. Returns what undoes it. */
export function onStopSignal(handler: (signal: StopSignal) => void): () => void {
  for (const signal of stopSignals) process.on(signal, handler);
  return () => {
    for (const signal of stopSignals) process.off(signal, handler);
  };
}

/** Exit status of a program that ends because of a signal, as a shell reports it. */
export function signalStatus(signal: StopSignal): number {
  return 128 + constants.signals[signal];
}

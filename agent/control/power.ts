import { readFileSync } from "node:fs";

/** What PID 1 does on which signal; the same that busybox `poweroff` and `reboot` send. */
const signals = { off: "SIGUSR2", reboot: "SIGTERM" } as const;

export type PowerAction = keyof typeof signals;

/** Whether PID 1 is ours. Only then may the agent ask it for a power-off, set the clock or reseed: elsewhere it is a guest itself. */
export function underVmappInit(): boolean {
  try {
    return readFileSync("/proc/1/cmdline", "utf8").split("\0", 1)[0]?.endsWith("/vmapp-init") === true;
  } catch {
    return false;
  }
}

export function requestPower(action: PowerAction): void {
  process.kill(1, signals[action]);
}

/** Has PID 1 look for a program on offer; see protocol/update-markers.ts. */
export function tellInit(): void {
  process.kill(1, "SIGHUP");
}

import { existsSync, renameSync, rmSync } from "node:fs";
import type { ConsoleLog } from "./console-log.ts";

/** A guest whose agent does not announce itself on the console is let in after this. */
const unannouncedMs = 10_000;
const retryMs = 200;

/**
 * Keeps hosts from a hybrid socket until the guest listens: vhost-device-vsock (0.3.0) can stay deaf for good when it is
 * dialled while the guest's driver starts. Its socket is made under another name and moved to its own by the agent's
 * announcement; until then a dial fails at once, as for a guest that is not there.
 */
export class VsockGate {
  private timer: NodeJS.Timeout;
  private readonly forget: () => void;

  constructor(
    private readonly closedPath: string,
    private readonly openPath: string,
    console: ConsoleLog,
  ) {
    this.forget = console.onReady(() => this.open());
    this.timer = setTimeout(() => this.open(), unannouncedMs);
    this.timer.unref();
  }

  /** No more dials reach the guest; the socket is gone. */
  close(): void {
    this.stopWaiting();
    rmSync(this.openPath, { force: true });
  }

  private open(): void {
    this.stopWaiting();
    if (existsSync(this.closedPath)) {
      renameSync(this.closedPath, this.openPath);
      return;
    }
    this.timer = setTimeout(() => this.open(), retryMs);
    this.timer.unref();
  }

  private stopWaiting(): void {
    clearTimeout(this.timer);
    this.forget();
  }
}

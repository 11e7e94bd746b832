import type { ClientState } from "./client-state.ts";

/**
 * Turns a client's states into lines for a log: one says what is waited for, repeats are counted and not written, and the line that ends the
 * wait tells their number.
 */
export function createWaitReport(write: (line: string) => void): (state: ClientState) => void {
  let reason: string | undefined;
  let attempts = 0;
  return (state) => {
    switch (state.name) {
      case "waiting":
        attempts++;
        if (state.reason !== reason) write(`waiting for the guest: ${state.reason}`);
        reason = state.reason;
        return;
      case "updating":
        write("the guest runs another program and is being updated");
        return;
      case "ready":
        if (state.notice !== undefined) write(`the guest was not updated: ${state.notice}`);
        if (attempts > 0) write(`the guest is ready after ${attempts} failed attempt${attempts === 1 ? "" : "s"}`);
        reason = undefined;
        attempts = 0;
        return;
      case "idle":
      case "connecting":
      case "handshaking":
      case "stopped":
        return;
    }
  };
}

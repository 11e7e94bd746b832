/** What a session tells, and how it is called. */
import type { EmitMessage } from "#protocol/bridge/messages.ts";
import type { InspectedMessage } from "./inspector.ts";
import type { WindowParams } from "./ops.ts";
import type { AppState } from "./upkeep.ts";

export interface AppEvents {
  state: [state: AppState];
  /** the core pushes to a window, or to every window where `win` is null */
  emit: [message: Omit<EmitMessage, "t">];
  /** the core has opened a window */
  "window-opened": [win: number, params: WindowParams];
  /** a window is gone: closed here or by the core, or its core was lost */
  "window-closed": [win: number];
  /** the core has asked to quit, or has ended after `before-quit` */
  quit: [];
  /** every message as it passes; what is not watched costs nothing */
  message: [message: InspectedMessage];
  /** something was dropped or went wrong, in words */
  problem: [text: string];
}

export interface CallOptions {
  channel: string;
  args?: readonly unknown[];
  /** the window that calls; the oldest open one when absent, 0 without any */
  win?: number;
  /** none when absent */
  timeoutMs?: number;
  signal?: AbortSignal;
}

import type { AppIdentity, InitMessage, Platform } from "#protocol/bridge/messages.ts";

export interface InitOptions {
  app?: AppIdentity;
  platform?: Platform;
  /** path of each shared folder in the guest, by name; null where there is none yet */
  folders?: Record<string, string | null>;
  /** the app's own directory in the guest; `/data` when absent */
  data?: string;
}

/** What the core hears first on each connection. */
export function initMessage(options: InitOptions): InitMessage {
  const {
    app = { id: "app", name: "App", version: "0.0.0" },
    platform = { os: "linux", arch: process.arch },
    folders = {},
    data = "/data",
  } = options;
  return { t: "init", app, platform, folders, data };
}

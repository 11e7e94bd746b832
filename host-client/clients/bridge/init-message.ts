import type { InitMessage } from "#protocol/bridge/messages.ts";
import type { AppOptions } from "./session.ts";

/** What the core hears first on each connection. */
export function initMessage(options: AppOptions): InitMessage {
  const {
    app = { id: "app", name: "App", version: "0.0.0" },
    platform = { os: "linux", arch: process.arch },
    folders = {},
    data = "/data",
  } = options;
  return { t: "init", app, platform, folders, data };
}

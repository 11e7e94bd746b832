import { existsSync, readFileSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { basename } from "node:path";
import type { RequestOf } from "#protocol/control/requests.ts";
import {
  type AppWish,
  appWishPath,
  decodeServiceReport,
  type ServiceReport,
  serviceReportPath,
} from "#protocol/service-report.ts";
import { tellInit } from "./power.ts";
import type { Reply } from "./reply.ts";
import { RequestError } from "./request-error.ts";

/** name of the app among PID 1's services, and its `bundle_id` */
const appName = "app";

/** how long PID 1 may take to start or end it; a program that ignores SIGTERM is killed after 5 s */
const patienceMs = 8_000;
const pollMs = 20;

/** The one app that PID 1 supervises, in the terms of v1. */
export class Apps {
  /** whether the guest has an app */
  get available(): boolean {
    return existsSync(serviceReportPath) && appOf(readReport()) !== undefined;
  }

  list({ filter }: RequestOf<"app_list">): Reply {
    const report = readReport();
    const app = appOf(report);
    if (app === undefined) throw unavailable();
    const running = app.pid !== undefined;
    const shown = filter !== "system" && (filter !== "running" || running);
    const entry = {
      bundle_id: appName,
      name: basename(app.program),
      version: "",
      type: "user",
      state: running ? "running" : "not_running",
      pid: app.pid ?? 0,
      path: app.program,
      data_container: report?.app_data ?? "",
    };
    return { fields: { t: "app_list", apps: shown ? [entry] : [] } };
  }

  async launch({ bundle_id: id, url }: RequestOf<"app_launch">): Promise<Reply> {
    requireApp(id);
    if (url !== undefined) throw new RequestError("unavailable", "app_launch: the app takes no URL");
    await wish("running");
    const pid = await settled((app) => app.pid !== undefined);
    if (pid === undefined) throw new RequestError("io", `failed to launch ${id}`);
    return { fields: { t: "app_launch", ok: true, pid } };
  }

  async terminate({ bundle_id: id }: RequestOf<"app_terminate">): Promise<Reply> {
    requireApp(id);
    await wish("stopped");
    const ended = (await settled((app) => app.pid === undefined)) === 0;
    return { fields: { t: "app_terminate", ok: ended } };
  }
}

function unavailable(): RequestError {
  return new RequestError("unavailable", "apps not available");
}

function requireApp(id: string): void {
  if (appOf(readReport()) === undefined) throw unavailable();
  if (id !== appName) throw new RequestError("not_found", `there is no app ${id}`);
}

function readReport(): ServiceReport | undefined {
  try {
    return decodeServiceReport(readFileSync(serviceReportPath, "utf8"));
  } catch {
    return undefined;
  }
}

function appOf(report: ServiceReport | undefined): ServiceReport["services"][number] | undefined {
  return report?.services.find(({ name }) => name === appName);
}

async function wish(what: AppWish): Promise<void> {
  await writeFile(appWishPath, `${what}\n`, { mode: 0o644 });
  tellInit();
}

/** The app's pid, 0 for none, once PID 1 reports what is wanted; undefined when that takes too long. */
async function settled(wanted: (app: ServiceReport["services"][number]) => boolean): Promise<number | undefined> {
  const deadline = performance.now() + patienceMs;
  while (performance.now() < deadline) {
    const app = appOf(readReport());
    if (app !== undefined && wanted(app)) return app.pid ?? 0;
    await Bun.sleep(pollMs);
  }
  return undefined;
}

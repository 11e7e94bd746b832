import { readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { type AppWish, appWishPath, type ServiceReport, serviceReportPath } from "#protocol/service-report.ts";

/** Puts the report in place whole. Throws a system error. */
export function writeServiceReport(report: ServiceReport, path = serviceReportPath): void {
  writeFileSync(`${path}.new`, `${JSON.stringify(report)}\n`, { mode: 0o644 });
  renameSync(`${path}.new`, path);
}

/** What the agent wants of the app, told once; undefined when it has not said anything new. */
export function takeAppWish(path = appWishPath): AppWish | undefined {
  let text: string;
  try {
    text = readFileSync(path, "utf8").trim();
  } catch {
    return undefined;
  }
  rmSync(path, { force: true });
  return text === "running" || text === "stopped" ? text : undefined;
}

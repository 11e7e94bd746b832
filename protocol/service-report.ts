/** What PID 1 tells the agent of its services, and the agent tells PID 1 of the app: two small files that only root writes. */
import * as z from "zod/mini";

export const serviceReportPath = "/run/vmapp/services.json";

/** holds `running` or `stopped`; PID 1 looks at it when it gets SIGHUP */
export const appWishPath = "/run/vmapp/app-wish";

export type AppWish = "running" | "stopped";

const serviceReportSchema = z.object({
  services: z.array(
    z.object({
      name: z.string(),
      /** program as it was started */
      program: z.string(),
      /** of the running process; absent between runs */
      pid: z.optional(z.int()),
      /** how often it was started anew since the boot */
      restarts: z.int(),
    }),
  ),
  /** the app's own directory; absent when the guest has no app */
  app_data: z.optional(z.string()),
});

export type ServiceReport = z.infer<typeof serviceReportSchema>;

/** Undefined for anything but a whole report. */
export function decodeServiceReport(text: string): ServiceReport | undefined {
  try {
    return serviceReportSchema.parse(JSON.parse(text));
  } catch {
    return undefined;
  }
}

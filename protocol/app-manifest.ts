/**
 * The app of an image: what PID 1 runs as the app's core. It stands in the image at {@link appManifestPath}, or in the
 * boot config, which counts where both are there.
 */
import * as z from "zod/mini";

/** where an image says which app it carries */
export const appManifestPath = "/opt/app/manifest.json";

const text = (most: number) => z.string("expected a text").check(z.maxLength(most), z.regex(/^[^\0]*$/, "holds a NUL"));
const absolute = z.string("expected a path").check(z.maxLength(4096), z.regex(/^\/[^\0]*$/, "not an absolute path"));

export const appManifestSchema = z.strictObject({
  /** program and arguments; the program is looked up in PATH unless it has a slash */
  argv: z.array(text(4096), "expected a list").check(z.minLength(1, "empty"), z.maxLength(256)),
  /** added to the environment that every program of the guest gets */
  env: z._default(
    z.record(z.string().check(z.regex(/^[A-Za-z_][A-Za-z0-9_]*$/, "not the name of a variable")), text(32_768)),
    {},
  ),
  /** working directory */
  cwd: z._default(absolute, "/"),
  /** whom it runs as: a name, a uid, or `uid:gid` */
  user: z._default(text(64), "root"),
  /** `never`, `on-failure`: an exit with 0 ends the app and powers the VM off; `always`: it is started again in any case */
  restart: z._default(z.enum(["never", "on-failure", "always"], "expected never, on-failure or always"), "on-failure"),
  /** the app's own directory, made when it is missing */
  data: z._default(absolute, "/data"),
});

export type AppManifest = z.infer<typeof appManifestSchema>;

/** Reads a manifest. Throws an Error that names the field. */
export function parseAppManifest(json: string): AppManifest {
  let value: unknown;
  try {
    value = JSON.parse(json);
  } catch {
    throw new Error("it is not JSON");
  }
  const result = appManifestSchema.safeParse(value);
  if (result.success) return result.data;
  throw new Error(
    result.error.issues.map(({ path, message }) => `${path.join(".") || "manifest"}: ${message}`).join("; "),
  );
}

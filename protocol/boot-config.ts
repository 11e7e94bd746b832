/**
 * Settings of one boot, which the host puts on the kernel command line as `vmapp.config=<base64url of JSON>`. A setting
 * that is missing or bad takes its default, so that a guest always comes up; what was bad is told, not thrown.
 */
import * as z from "zod/mini";
import { appManifestSchema } from "./app-manifest.ts";

const key = "vmapp.config=";

/**
 * Longest word that {@link encodeBootConfig} makes, in bytes. The kernel cuts its command line at 2048 bytes without a
 * word; the rest is for the console and for what stage 0 reads.
 */
export const maxBootConfigBytes = 1536;

const label = "[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?";
const hostnamePattern = new RegExp(`^${label}([.]${label})*$`);

const fields = {
  /** name of the guest, at most 64 bytes; default: what the image's /etc/hostname says */
  hostname: z
    .string("expected a text")
    .check(z.maxLength(64, "longer than 64 bytes"), z.regex(hostnamePattern, "not a host name")),
  /** the least important lines that PID 1 and the agent print; default `info` */
  logLevel: z.enum(["info", "warn", "error"], "expected info, warn or error"),
  /** the app to run, instead of the one that the image names */
  app: appManifestSchema,
};

type Fields = typeof fields;
type BootConfigKey = keyof Fields;
/** As the host gives it: parts that have defaults may be left out. */
export type BootConfig = { readonly [Key in BootConfigKey]?: z.input<Fields[Key]> };
/** As the guest takes it. */
export type TakenBootConfig = { readonly [Key in BootConfigKey]?: z.output<Fields[Key]> };

export interface DecodedBootConfig {
  readonly config: TakenBootConfig;
  /** one sentence for each setting that was not taken, with its name */
  readonly problems: readonly string[];
}

/**
 * The word for the kernel command line, key included. Throws a RangeError that names the setting when one is bad, or the
 * size when the word would be longer than {@link maxBootConfigBytes}.
 */
export function encodeBootConfig(config: BootConfig): string {
  const { problems } = checkSettings(config);
  if (problems.length > 0) throw new RangeError(`bad boot config: ${problems.join("; ")}`);
  const word = key + Buffer.from(JSON.stringify(config), "utf8").toString("base64url");
  if (word.length > maxBootConfigBytes)
    throw new RangeError(
      `the boot config takes ${word.length} bytes of the kernel command line, ${maxBootConfigBytes} are allowed`,
    );
  return word;
}

/** Finds and reads the word in a kernel command line; the last one counts, as with the kernel's own settings. Never throws. */
export function decodeBootConfig(commandLine: string): DecodedBootConfig {
  const word = commandLine.split(/\s+/).findLast((candidate) => candidate.startsWith(key));
  if (word === undefined) return { config: {}, problems: [] };
  let value: unknown;
  try {
    value = JSON.parse(Buffer.from(word.slice(key.length), "base64url").toString("utf8"));
  } catch {
    return { config: {}, problems: ["vmapp.config is not base64url of JSON"] };
  }
  if (typeof value !== "object" || value === null || Array.isArray(value))
    return { config: {}, problems: ["vmapp.config is not a JSON object"] };
  return checkSettings(value);
}

function checkSettings(settings: object): DecodedBootConfig {
  const config: Partial<Record<BootConfigKey, unknown>> = {};
  const problems: string[] = [];
  for (const [name, value] of Object.entries(settings)) {
    if (value === undefined) continue;
    if (!isKey(name)) {
      problems.push(`unknown setting ${JSON.stringify(name)}`);
      continue;
    }
    const result = fields[name].safeParse(value);
    if (result.success) config[name] = result.data;
    else problems.push(`${name}: ${result.error.issues.map(describeIssue).join(", ")}`);
  }
  return { config: config as TakenBootConfig, problems };
}

/** With the path inside the setting, where it has parts. */
function describeIssue({ path, message }: { path: readonly PropertyKey[]; message: string }): string {
  return path.length === 0 ? message : `${path.map(String).join(".")}: ${message}`;
}

function isKey(name: string): name is BootConfigKey {
  return Object.hasOwn(fields, name);
}

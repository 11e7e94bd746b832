/**
 * What the host sends, declared once. Fields and whole messages marked *extension* are ours; a stock v1 host never sends
 * them and a stock v1 daemon ignores or refuses them. Fields that are not named here are ignored (companion §2.2).
 */
import * as z from "zod/mini";
import type { ErrorCode } from "./error-code.ts";
import type { WireMessage } from "./message.ts";
import { trailerKinds } from "./trailer-kind.ts";

const count = z.int().check(z.nonnegative());
const sha256 = z.string().check(z.regex(/^[0-9a-f]{64}$/));
/** permission bits as octal text, `644` or `0644`; set-id and sticky bits cannot be expressed */
const perm = z.string().check(z.regex(/^0?[0-7]{1,3}$/));
/** *extension*: see trailer.ts */
const trailer = z.enum(trailerKinds);
const path = z.string().check(z.minLength(1));
/** seconds since the epoch, with a fraction */
const seconds = z.number();

const request = <T extends string, S extends z.core.$ZodLooseShape>(t: T, shape: S) =>
  z.object({ t: z.literal(t), id: z.optional(z.unknown()), ...shape });

const schemas = {
  ping: request("ping", {}),
  version: request("version", {}),
  /** `sha256` is an extension */
  update: request("update", { size: count, sha256: z.optional(sha256) }),

  /** *extension*: `after` and `limit` cut the list, sorted by name, into pages */
  file_list: request("file_list", {
    path,
    after: z.optional(z.string()),
    limit: z.optional(z.int().check(z.positive())),
  }),
  /** *extension*: `offset` and `length` in bytes; `nofollow` refuses links; `trailer` asks for one behind the content */
  file_get: request("file_get", {
    path,
    offset: z.optional(count),
    length: z.optional(count),
    trailer: z.optional(trailer),
    nofollow: z.optional(z.boolean()),
  }),
  /**
   * *extension*: `mtime` to set; `sha256` to verify; `trailer` says that one is behind the content; `sync: false` leaves the
   * flush to disk to the system
   */
  file_put: request("file_put", {
    path,
    size: count,
    perm: z.optional(perm),
    mtime: z.optional(seconds),
    sha256: z.optional(sha256),
    trailer: z.optional(trailer),
    sync: z.optional(z.boolean()),
  }),
  /** *extension*: `perm` of the folder, when it is new */
  file_mkdir: request("file_mkdir", { path, perm: z.optional(perm) }),
  file_delete: request("file_delete", { path }),
  file_rename: request("file_rename", { from: path, to: path }),
  /** *extension* */
  file_stat: request("file_stat", { path, nofollow: z.optional(z.boolean()) }),

  clipboard_get: request("clipboard_get", {}),
  clipboard_set: request("clipboard_set", {
    type: z.optional(z.string()),
    text: z.optional(z.string()),
    size: z.optional(count),
  }),

  app_list: request("app_list", { filter: z.optional(z.string()) }),
  app_launch: request("app_launch", { bundle_id: z.string().check(z.minLength(1)), url: z.optional(z.string()) }),
  app_terminate: request("app_terminate", { bundle_id: z.string().check(z.minLength(1)) }),

  low_power_mode: request("low_power_mode", { enabled: z.optional(z.boolean()) }),

  /** *extension* */
  power: request("power", { action: z.enum(["off", "reboot"]) }),
  /** *extension* */
  stats: request("stats", {}),
  /** *extension*: the named sessions of the shell service */
  sessions: request("sessions", {}),
  /** *extension*: `time` is the host's clock in seconds since the epoch */
  clock_set: request("clock_set", { time: seconds }),
  /** *extension*: `seed` is 32 to 512 random bytes in base64 */
  reseed: request("reseed", { seed: z.string().check(z.regex(/^[A-Za-z0-9+/]{43,683}={0,2}$/)) }),
} as const;

export type RequestType = keyof typeof schemas;
export type RequestOf<T extends RequestType> = z.infer<(typeof schemas)[T]>;
export type Request = { [T in RequestType]: RequestOf<T> }[RequestType];

/** The first frame of a connection (companion §4.1). No hash is offered when `bin_hash` is absent, null or empty. */
export const helloRequest = z.object({ bin_hash: z.nullish(z.string()) });

export type ParsedRequest =
  | { readonly ok: true; readonly request: Request }
  | { readonly ok: false; readonly code: ErrorCode; readonly msg: string };

/** Checks a message against the schema of its type. The texts are those of v1 where v1 has one (companion §6). */
export function parseRequest(message: WireMessage): ParsedRequest {
  const t = message.t;
  if (typeof t !== "string") {
    return { ok: false, code: "bad_request", msg: `unknown type: ${t === undefined ? "(null)" : JSON.stringify(t)}` };
  }
  if (!Object.hasOwn(schemas, t)) return { ok: false, code: "unknown_type", msg: unknownType(t) };
  const parsed = schemas[t as RequestType].safeParse(message);
  if (parsed.success) return { ok: true, request: parsed.data as Request };
  return { ok: false, code: "bad_request", msg: explain(t, parsed.error.issues, message) };
}

function explain(t: string, issues: readonly z.core.$ZodIssue[], message: WireMessage): string {
  const field = String(issues[0]?.path[0] ?? "t");
  const value = message[field];
  if (value !== undefined && value !== "") return `${t}: bad ${field}: ${shorten(JSON.stringify(value))}`;
  return t === "file_rename" ? "missing from/to" : `missing ${field}`;
}

const families: readonly (readonly [prefix: string, name: string])[] = [
  ["file_", "file"],
  ["keychain_", "keychain"],
  ["clipboard_", "clipboard"],
  ["app_", "apps"],
  ["settings_", "settings"],
];

function unknownType(t: string): string {
  const family = families.find(([prefix]) => t.startsWith(prefix));
  return family === undefined ? `unknown type: ${shorten(t)}` : `unknown ${family[1]} command: ${shorten(t)}`;
}

function shorten(text: string): string {
  return text.length <= 200 ? text : `${text.slice(0, 200)}…`;
}

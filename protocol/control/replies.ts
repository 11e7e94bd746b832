/** What the guest answers, declared once. *Extension* marks what a stock v1 daemon does not send. */
import * as z from "zod/mini";
import { trailerKinds } from "./trailer-kind.ts";

const count = z.int().check(z.nonnegative());
/** permission bits in octal */
const perm = z.string().check(z.regex(/^[0-7]{1,4}$/));

/** The hello of the guest (companion §4.2). */
export const helloReply = z.object({
  v: z.literal(1),
  t: z.literal("hello"),
  name: z._default(z.string(), "unknown"),
  caps: z._default(z.catch(z.array(z.string()), []), []),
  /** a stock iOS guest's system version */
  ios: z.optional(z.string()),
  /** first IPv4 address that is not loopback */
  ip: z.optional(z.string()),
  need_update: z.optional(z.boolean()),
  /** *extension*: SHA-256 of the running program, once it is known */
  hash: z.optional(z.string()),
  /** *extension*: build id, as in `version` */
  build: z.optional(z.string()),
  /** *extension* */
  os: z.optional(
    z.object({
      /** `ID` of os-release, e.g. `debian` */
      id: z.string(),
      /** `VERSION_ID` of os-release; empty for a rolling release */
      version: z.string(),
      /** kernel release, as `uname -r` */
      kernel: z.string(),
      /** `x64` or `arm64` */
      arch: z.string(),
    }),
  ),
  /** *extension*: largest update in bytes */
  max_update: z.optional(count),
  /** *extension*: largest `file_put` in bytes */
  max_put: z.optional(count),
  /** *extension*: largest payload of a frame in bytes */
  max_frame: z.optional(count),
});
export type HelloReply = z.infer<typeof helloReply>;

/** Envelope of every answer (companion §3). */
export const replyEnvelope = z.object({
  t: z.string(),
  id: z.optional(z.unknown()),
  msg: z.optional(z.string()),
  /** *extension*: see {@link errorCodes} */
  code: z.optional(z.string()),
  /** *extension*: what an `msg` that v1 fixes leaves unsaid */
  reason: z.optional(z.string()),
});

export const versionReply = z.object({ hash: z.string() });

export const fileEntry = z.object({
  /** last component; from a guest, so never to be trusted as a path: see `isPlainName` */
  name: z.string(),
  type: z.enum(["file", "dir", "link"]),
  link_target_dir: z._default(z.boolean(), false),
  /** bytes, of the link itself for a link */
  size: z.number(),
  perm,
  /** seconds since the epoch */
  mtime: z.number(),
  /** *extension*: a FIFO, socket or device */
  special: z.optional(z.boolean()),
});
export type FileEntry = z.infer<typeof fileEntry>;

export const fileListReply = z.object({
  entries: z.array(fileEntry),
  /** *extension*: others follow, for a request with `limit` */
  more: z.optional(z.boolean()),
  /** *extension*: entries left out because their names are not UTF-8 */
  not_utf8: z.optional(count),
});

/** *Extension*: one entry, with a finer `mtime`. */
export const fileStatReply = z.object({
  type: z.enum(["file", "dir", "link"]),
  link_target_dir: z._default(z.boolean(), false),
  size: count,
  perm,
  /** seconds since the epoch, with a fraction */
  mtime: z.number(),
  uid: z.optional(count),
  gid: z.optional(count),
  /** where a link points, as it says */
  target: z.optional(z.string()),
  special: z.optional(z.boolean()),
});
export type FileStat = z.infer<typeof fileStatReply>;

export const fileDataReply = z.object({
  t: z.literal("file_data"),
  /** raw bytes that follow */
  size: count,
  /** *extension* */
  perm: z.optional(perm),
  /** *extension*: seconds since the epoch, with a fraction */
  mtime: z.optional(z.number()),
  /** *extension*: bytes of the whole file, for a range */
  total: z.optional(count),
  /** *extension*: which trailer is behind the content, see trailer.ts */
  trailer: z.optional(z.enum(trailerKinds)),
});
export type FileData = z.infer<typeof fileDataReply>;

/** *Extension*. Sizes in bytes, times in seconds. */
export const statsReply = z.object({
  uptime: z.number(),
  memory: z.object({ total: count, available: count, free: count, cached: count }),
  /** run queue averaged over 1, 5 and 15 minutes */
  load: z.array(z.number()),
  disk: z.object({ path: z.string(), total: count, available: count }),
  processes: count,
  /** resident memory of the agent */
  agent_rss: count,
  /** those of PID 1, where that is vmapp-init */
  services: z.optional(z.array(z.object({ name: z.string(), pid: z.optional(count), restarts: count }))),
});
export type GuestStats = z.infer<typeof statsReply>;

/** *Extension*: the host's clock less the guest's in seconds, before it was stepped. */
export const clockReply = z.object({ offset: z.number(), stepped: z.boolean() });

/** *Extension*: the named shell sessions that run, and those that ended within the last minutes. */
export const sessionsReply = z.object({
  sessions: z.array(
    z.object({
      name: z.string(),
      /** command and arguments */
      argv: z.array(z.string()),
      pid: count,
      tty: z.boolean(),
      /** whether a client is there */
      attached: z.boolean(),
      /** start of the command, seconds since the epoch */
      startedAt: z.number(),
      /** output so far, in bytes */
      outputBytes: count,
      /** exit status, 128 + n for signal n; absent while the command runs */
      exitCode: z.optional(z.int()),
    }),
  ),
});
export type NamedSessionInfo = z.infer<typeof sessionsReply>["sessions"][number];

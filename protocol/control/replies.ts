/** What the guest answers, declared once. *Extension* marks what a stock v1 daemon does not send. */
import * as z from "zod/mini";

const count = z.int().check(z.nonnegative());

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
});

export const versionReply = z.object({ hash: z.string() });

export const fileEntry = z.object({
  name: z.string(),
  type: z.enum(["file", "dir", "link"]),
  link_target_dir: z._default(z.boolean(), false),
  /** bytes, of the link itself for a link */
  size: z.number(),
  /** permission bits in octal */
  perm: z.string(),
  /** seconds since the epoch */
  mtime: z.number(),
});
export type FileEntry = z.infer<typeof fileEntry>;

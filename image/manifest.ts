/** What an image consists of: its `manifest.json`, the schema of that file and its reader. Runs on Bun and on Node. */

import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { readFile, stat } from "node:fs/promises";
import { join, resolve } from "node:path";
import { z } from "zod";

export const manifestFileName = "manifest.json";

/** Format of the manifest; raised when a reader of the former one could not use the image. */
export const manifestFormat = 1;

const partSchema = z.strictObject({
  /** file name inside the image's directory */
  file: z.string().regex(/^[\w.-]+$/, "must be a plain file name"),
  /** size in bytes */
  size: z.int().positive(),
  /** SHA-256 of the file, in hexadecimal */
  sha256: z.string().regex(/^[0-9a-f]{64}$/, "must be 64 hexadecimal digits"),
  /** what went into the part, and its version */
  versions: z.record(z.string(), z.string()),
});

const partNames = ["kernel", "initramfs", "runtime", "base"] as const;

const manifestSchema = z.strictObject({
  format: z.literal(manifestFormat),
  /** the guest's processor architecture, as Node names it */
  architecture: z.enum(["x64", "arm64"]),
  /** words of the kernel command line that every boot of this image needs */
  kernelParameters: z.array(z.string().regex(/^\S+$/, "must be one word")),
  parts: z.strictObject({ kernel: partSchema, initramfs: partSchema, runtime: partSchema, base: partSchema }),
  /** kernel modules in the initramfs, in load order, by the occasion that loads them */
  modules: z.record(z.string(), z.array(z.string())),
});

export type ImageManifest = z.infer<typeof manifestSchema>;
export type ImagePartName = (typeof partNames)[number];

export interface Image {
  /** absolute path of the image's directory */
  readonly directory: string;
  readonly manifest: ImageManifest;
  /** absolute path of each part's file */
  readonly paths: Readonly<Record<ImagePartName, string>>;
}

/** `missing`: there is no image; `invalid`: its manifest cannot be used; `damaged`: a part is not what the manifest says */
export type ImageErrorCode = "missing" | "invalid" | "damaged";

/** An image cannot be used. The message names the file and what is wrong with it. */
export class ImageError extends Error {
  override readonly name = "ImageError";
  constructor(
    readonly code: ImageErrorCode,
    message: string,
    options?: ErrorOptions,
  ) {
    super(message, options);
  }
}

/** Checks the text of a manifest. `file` names it in errors. Throws {@link ImageError} `invalid`. */
export function parseManifest(text: string, file: string): ImageManifest {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    throw new ImageError("invalid", `${file} is not JSON: ${(cause as Error).message}`, { cause });
  }
  const format = (value as { format?: unknown } | null)?.format;
  if (typeof format === "number" && format !== manifestFormat)
    throw new ImageError(
      "invalid",
      `${file} has format ${format}; this version of vmapp reads format ${manifestFormat}`,
    );
  const result = manifestSchema.safeParse(value);
  if (result.success) return result.data;
  const issues = result.error.issues.map((issue) => `${issue.path.join(".") || "manifest"}: ${issue.message}`);
  throw new ImageError("invalid", `${file} is not a valid image manifest: ${issues.join("; ")}`);
}

/** Opens the image in a directory: reads its manifest and checks that each part is there with its size. */
export async function openImage(directory: string): Promise<Image> {
  const absolute = resolve(directory);
  const file = join(absolute, manifestFileName);
  let text: string;
  try {
    text = await readFile(file, "utf8");
  } catch (cause) {
    const code = (cause as NodeJS.ErrnoException).code;
    if (code !== "ENOENT" && code !== "ENOTDIR")
      throw new ImageError("invalid", `cannot read ${file}: ${(cause as Error).message}`, { cause });
    throw new ImageError("missing", `there is no image in ${absolute}: ${manifestFileName} was not found`, { cause });
  }
  const manifest = parseManifest(text, file);
  const paths = {} as Record<ImagePartName, string>;
  for (const name of partNames) {
    const part = manifest.parts[name];
    paths[name] = join(absolute, part.file);
    const size = await stat(paths[name]).then(
      (stats) => stats.size,
      (cause) => {
        throw new ImageError("damaged", `the ${name} of the image is missing: ${paths[name]}`, { cause });
      },
    );
    if (size !== part.size)
      throw new ImageError("damaged", `${paths[name]} has ${size} bytes; its manifest says ${part.size}`);
  }
  return { directory: absolute, manifest, paths };
}

/** Reads every part and compares its SHA-256 with the manifest. Throws {@link ImageError} `damaged`. */
export async function verifyImage(image: Image): Promise<void> {
  for (const name of partNames) {
    const found = await sha256OfFile(image.paths[name]);
    const expected = image.manifest.parts[name].sha256;
    if (found !== expected)
      throw new ImageError("damaged", `${image.paths[name]} has SHA-256 ${found}; its manifest says ${expected}`);
  }
}

/** SHA-256 of a file's bytes, in hexadecimal. */
export async function sha256OfFile(file: string): Promise<string> {
  const hash = createHash("sha256");
  for await (const chunk of createReadStream(file)) hash.update(chunk as Buffer);
  return hash.digest("hex");
}

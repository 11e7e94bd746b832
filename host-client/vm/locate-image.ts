import { existsSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { type Image, ImageError, manifestFileName, openImage } from "#image/manifest.ts";
import { VmError } from "./error.ts";
import { checkoutDirectory } from "./find-program.ts";

/** Guests run on the processor that the QEMU of this host emulates fastest: its own. Only x64 images are built. */
const architecture = "x64";

/** Where an image is looked for when none is named, first match first. */
export function defaultImageDirectories(env: NodeJS.ProcessEnv = process.env): string[] {
  if (env.VMAPP_IMAGE) return [resolve(env.VMAPP_IMAGE)];
  const directories = [join(dirname(process.execPath), "image", architecture)];
  const checkout = checkoutDirectory();
  if (checkout !== undefined) directories.push(join(checkout, "dist", "image", architecture));
  return directories;
}

/** Opens the image in the directory, or the default one. Throws {@link VmError} `image`. */
export async function locateImage(directory?: string): Promise<Image> {
  const candidates = directory === undefined ? defaultImageDirectories() : [directory];
  const found = candidates.find((candidate) => existsSync(join(candidate, manifestFileName))) ?? candidates[0];
  try {
    if (found === undefined) throw new ImageError("missing", "no directory is known to hold an image");
    return await openImage(found);
  } catch (cause) {
    if (!(cause instanceof ImageError)) throw cause;
    const hint =
      cause.code === "missing" ? `; build one with "make image", or name one with --image or $VMAPP_IMAGE` : "";
    throw new VmError("image", `${cause.message}${hint}`, cause);
  }
}

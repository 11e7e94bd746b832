import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  ImageError,
  type ImageManifest,
  openImage,
  parseManifest,
  sha256OfFile,
  verifyImage,
} from "#image/manifest.ts";

let directory: string;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "vmapp-manifest-"));
});

afterEach(async () => {
  await rm(directory, { recursive: true, force: true });
});

async function writeImage(change: (manifest: ImageManifest) => unknown = () => {}): Promise<ImageManifest> {
  const part = async (file: string) => {
    const path = join(directory, file);
    await writeFile(path, `the ${file}`);
    return {
      file,
      size: Buffer.byteLength(`the ${file}`),
      sha256: await sha256OfFile(path),
      versions: { [file]: "1.0" },
    };
  };
  const manifest: ImageManifest = {
    format: 1,
    architecture: "x64",
    kernelParameters: ["console=ttyS0"],
    parts: {
      kernel: await part("kernel"),
      initramfs: await part("initramfs"),
      runtime: await part("runtime.squashfs"),
      base: await part("base.squashfs"),
    },
    modules: { boot: ["virtio.ko"] },
  };
  change(manifest);
  await writeFile(join(directory, "manifest.json"), JSON.stringify(manifest));
  return manifest;
}

async function openError(target = directory): Promise<ImageError> {
  const error = await openImage(target).then(
    () => undefined,
    (cause: unknown) => cause,
  );
  if (!(error instanceof ImageError)) throw new Error(`openImage gave no ImageError but ${error}`);
  return error;
}

describe("opening an image", () => {
  test("gives the manifest and the absolute path of every part", async () => {
    const manifest = await writeImage();
    const image = await openImage(directory);
    expect(image.manifest).toEqual(manifest);
    expect(image.paths.runtime).toBe(join(directory, "runtime.squashfs"));
  });

  test("says that a directory without a manifest holds no image", async () => {
    const empty = join(directory, "empty");
    await mkdir(empty);
    for (const target of [empty, join(directory, "absent")]) {
      const error = await openError(target);
      expect(error.code).toBe("missing");
      expect(error.message).toContain(target);
    }
  });

  test("names the file whose size is not the manifest's", async () => {
    await writeImage();
    await writeFile(join(directory, "kernel"), "x");
    const error = await openError();
    expect(error.code).toBe("damaged");
    expect(error.message).toBe(`${join(directory, "kernel")} has 1 bytes; its manifest says 10`);
  });

  test("names the part that is missing", async () => {
    await writeImage();
    await rm(join(directory, "base.squashfs"));
    const error = await openError();
    expect(error.code).toBe("damaged");
    expect(error.message).toContain(join(directory, "base.squashfs"));
  });
});

describe("verifying an image", () => {
  test("accepts what the manifest describes", async () => {
    await writeImage();
    await verifyImage(await openImage(directory));
  });

  test("finds a part of the right size with other bytes", async () => {
    await writeImage();
    const image = await openImage(directory);
    await writeFile(image.paths.initramfs, "THE initramfs");
    await expect(verifyImage(image)).rejects.toThrow(image.paths.initramfs);
  });
});

describe("reading a manifest", () => {
  const bad: [what: string, text: string, message: RegExp][] = [
    ["text that is not JSON", "{", /^m\.json is not JSON: /],
    ["a list", "[]", /^m\.json is not a valid image manifest: /],
    ["null", "null", /^m\.json is not a valid image manifest: /],
    ["an empty object", "{}", /format.*architecture.*parts/],
    ["a later format", '{"format":2,"anything":1}', /^m\.json has format 2; this version of vmapp reads format 1$/],
  ];
  for (const [what, text, message] of bad)
    test(`refuses ${what}`, () => {
      expect(() => parseManifest(text, "m.json")).toThrow(message);
    });

  const changes: [what: string, change: (manifest: ImageManifest) => unknown, message: RegExp][] = [
    [
      "a part outside the directory",
      (m) => Object.assign(m.parts.kernel, { file: "../kernel" }),
      /parts\.kernel\.file/,
    ],
    ["a part in a subdirectory", (m) => Object.assign(m.parts.base, { file: "a/b" }), /parts\.base\.file/],
    ["a size of 0", (m) => Object.assign(m.parts.runtime, { size: 0 }), /parts\.runtime\.size/],
    ["a short SHA-256", (m) => Object.assign(m.parts.base, { sha256: "ab" }), /parts\.base\.sha256/],
    ["an unknown key", (m) => Object.assign(m, { surprise: true }), /surprise/],
    ["an unknown architecture", (m) => Object.assign(m, { architecture: "vax" }), /architecture/],
    ["a kernel parameter of two words", (m) => m.kernelParameters.push("quiet init=/x"), /kernelParameters\.1/],
  ];
  for (const [what, change, message] of changes)
    test(`refuses ${what} and names the field`, async () => {
      await writeImage(change);
      const error = await openError();
      expect(error.code).toBe("invalid");
      expect(error.message).toMatch(message);
      expect(error.message).toContain(join(directory, "manifest.json"));
    });
});

/** Recipes, image sources and image entries, and their documents (companion of the contract, section 4). */

import { DocumentReader, type Element } from "./document-reader.ts";
import type { DocumentValue } from "./document-writer.ts";
import { documentOf, MemberError, Members, stringOf, unsigned32 } from "./members.ts";

export type RecipeStep =
  /** a command line for the image's shell */
  | { readonly run: string }
  /** `src` is relative to the build context, `dst` absolute in the image */
  | { readonly copy: { readonly src: string; readonly dst: string } }
  | { readonly env: { readonly key: string; readonly value: string } }
  | { readonly workdir: string };

/** How an image is made; version 1 of the recipe. */
export interface Recipe {
  /** as a registry spells it; `scratch` is nothing */
  readonly base: string;
  readonly steps: readonly RecipeStep[];
}

/** Which image: built from a recipe, looked up by name, or exactly that build. */
export type ImageSource =
  | { readonly type: "recipe"; readonly recipe: Recipe }
  | { readonly type: "ref"; readonly ref: string }
  | { readonly type: "digest"; readonly digest: string };

export interface ImageEntry {
  /** `sha256:<hex>` */
  readonly digest: string;
  /** names of the build, `name:tag`; empty once all of them moved on */
  readonly refs: readonly string[];
}

const recipeVersion = 1;

export function decodeRecipe(document: Uint8Array, path: string): Recipe {
  const members = new Members(document, ["v", "base", "steps"], `${path}.`);
  const version = members.integer("v", unsigned32);
  if (version !== recipeVersion) throw new MemberError(`${path}.v is ${version}; version ${recipeVersion} is read`);
  const base = members.string("base");
  if (base === "") throw new MemberError(`${path}.base is empty`);
  return { base, steps: members.list("steps", decodeStep) };
}

const stepKinds = ["run", "copy", "env", "workdir"] as const;

function decodeStep(element: Element, path: string): RecipeStep {
  const document = documentOf(element, path);
  const members = new Members(document, stepKinds, `${path}.`);
  const kinds = stepKinds.filter((kind) => members.has(kind));
  const [kind] = kinds;
  if (kind === undefined || kinds.length > 1 || countMembers(document) > 1) {
    throw new MemberError(`${path} is not one of ${stepKinds.join(", ")}`);
  }
  switch (kind) {
    case "run":
      return { run: members.string("run") };
    case "copy": {
      const copy = new Members(members.document("copy"), ["src", "dst"], `${path}.copy.`);
      return { copy: { src: copy.string("src"), dst: copy.string("dst") } };
    }
    case "env": {
      const env = new Members(members.document("env"), ["key", "value"], `${path}.env.`);
      return { env: { key: env.string("key"), value: env.string("value") } };
    }
    case "workdir":
      return { workdir: members.string("workdir") };
  }
}

function countMembers(document: Uint8Array): number {
  const reader = new DocumentReader(document);
  let count = 0;
  while (reader.next()) count++;
  return count;
}

export function encodeRecipe({ base, steps }: Recipe): DocumentValue {
  return { v: BigInt(recipeVersion), base, steps: steps.map((step): DocumentValue => ({ ...step })) };
}

export function decodeImageSource(document: Uint8Array, path: string): ImageSource {
  const members = new Members(document, ["type", "recipe", "ref", "digest"], `${path}.`);
  const type = members.string("type");
  switch (type) {
    case "recipe":
      return { type, recipe: decodeRecipe(members.document("recipe"), `${path}.recipe`) };
    case "ref":
      return { type, ref: members.string("ref") };
    case "digest":
      return { type, digest: members.string("digest") };
    default:
      throw new MemberError(`${path}.type is ${JSON.stringify(type)}, not recipe, ref or digest`);
  }
}

export function encodeImageSource(source: ImageSource): DocumentValue {
  return source.type === "recipe" ? { type: source.type, recipe: encodeRecipe(source.recipe) } : { ...source };
}

export function decodeImageEntry(element: Element, path: string): ImageEntry {
  const members = new Members(documentOf(element, path), ["digest", "refs"], `${path}.`);
  return { digest: members.string("digest"), refs: members.listOrEmpty("refs", stringOf) };
}

export function encodeImageEntry({ digest, refs }: ImageEntry): DocumentValue {
  return { digest, refs: refs.length === 0 ? undefined : refs };
}

import { randomInt } from "node:crypto";

const adjectives =
  "amber bold brisk calm clear crisp eager fair fleet keen kind light merry neat pale quick quiet rapid sharp still swift tidy warm wise".split(
    " ",
  );
const nouns =
  "birch brook cedar cliff cloud coast crane delta dune fern finch fjord grove heron lark maple marsh otter pine reef ridge robin stone wren".split(
    " ",
  );

/** A name for a VM that was given none, e.g. `calm-heron-3f2`. */
export function generateVmName(): string {
  const pick = (words: readonly string[]) => words[randomInt(words.length)];
  return `${pick(adjectives)}-${pick(nouns)}-${randomInt(0x1000).toString(16).padStart(3, "0")}`;
}

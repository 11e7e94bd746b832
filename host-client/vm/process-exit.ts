const work = new Set<() => void>();

function runAll(): void {
  for (const each of work) each();
}

/** Runs the work, which must not wait, when this process exits in an orderly way. Returns what undoes it. */
export function atProcessExit(each: () => void): () => void {
  if (work.size === 0) process.on("exit", runAll);
  work.add(each);
  return () => {
    work.delete(each);
    if (work.size === 0) process.off("exit", runAll);
  };
}

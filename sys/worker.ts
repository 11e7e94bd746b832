/**
 * Starts a Worker of ours from the sources and from the compiled executable alike. `bun build` writes the source's own
 * `import.meta.url` into the bundle, so a URL made from it points at a file that exists only where it was built; inside
 * the executable a further entry point is found by its path from the project's root.
 */
const compiled = typeof VMAPP_BUILD_ID === "string" || Bun.main.startsWith("/$bunfs/");

/** Put in by the build of the executable, which then leaves the other branch out, and with it the path of the sources. */
declare const VMAPP_BUILD_ID: string | undefined;

/** @param path from the project's root, e.g. `sys/poller-worker.ts`; a further entry point of the executable's build */
export function startWorker(path: string): Worker {
  return new Worker(compiled ? `./${path}` : new URL(`../${path}`, import.meta.url).href);
}

import { afterAll } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** A folder for the tests of the calling file; it is gone after the last of them. */
export function temporaryFolder(): string {
  const path = mkdtempSync(join(tmpdir(), "vmapp-test-"));
  afterAll(() => rmSync(path, { recursive: true, force: true }));
  return path;
}

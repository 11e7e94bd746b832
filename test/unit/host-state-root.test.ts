import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { chmodSync, lstatSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { VmError } from "#host/vm/error.ts";
import { openStateRoot, requirePrivateDirectory, stateRootPath } from "#host/vm/state-root.ts";

const uid = process.getuid?.() ?? 0;
let runtimeDirectory: string;

beforeEach(() => {
  runtimeDirectory = mkdtempSync(join(tmpdir(), "vmapp-state-"));
});
afterEach(() => {
  rmSync(runtimeDirectory, { recursive: true, force: true });
});

function refusal(work: () => unknown): string {
  try {
    work();
  } catch (error) {
    if (error instanceof VmError && error.code === "state_directory") return error.message;
    throw error;
  }
  throw new Error("nothing was refused");
}

describe("the state root", () => {
  test("is in XDG_RUNTIME_DIR, or in /tmp under the user's number without the variable", () => {
    expect(stateRootPath({ XDG_RUNTIME_DIR: "/run/user/7" }, 7)).toBe("/run/user/7/vmapp");
    expect(stateRootPath({}, 7)).toBe("/tmp/vmapp-7");
    expect(stateRootPath({ XDG_RUNTIME_DIR: "relative" }, 7)).toBe("/tmp/vmapp-7");
  });

  test("is made with mode 0700 whatever the umask, and opened again", () => {
    const root = openStateRoot({ XDG_RUNTIME_DIR: runtimeDirectory }, uid);
    expect(root).toBe(join(runtimeDirectory, "vmapp"));
    expect(lstatSync(root).mode & 0o777).toBe(0o700);
    expect(openStateRoot({ XDG_RUNTIME_DIR: runtimeDirectory }, uid)).toBe(root);
  });

  test("is refused when it is a symbolic link, and nothing is written through it", () => {
    const elsewhere = join(runtimeDirectory, "elsewhere");
    mkdirSync(elsewhere, { mode: 0o700 });
    symlinkSync(elsewhere, join(runtimeDirectory, "vmapp"));
    expect(refusal(() => openStateRoot({ XDG_RUNTIME_DIR: runtimeDirectory }, uid))).toContain("symbolic link");
  });

  test("is refused when its parent is a symbolic link", () => {
    const link = join(runtimeDirectory, "link");
    symlinkSync(runtimeDirectory, link);
    expect(refusal(() => openStateRoot({ XDG_RUNTIME_DIR: link }, uid))).toContain("symbolic link");
  });

  test.each(["755", "710", "702"])("is refused when others can enter it (mode %s)", (octal) => {
    const mode = Number.parseInt(octal, 8);
    const root = join(runtimeDirectory, "vmapp");
    mkdirSync(root);
    chmodSync(root, mode);
    const message = refusal(() => openStateRoot({ XDG_RUNTIME_DIR: runtimeDirectory }, uid));
    expect(message).toContain(octal);
    expect(message).toContain(`chmod 0700 ${root}`);
  });

  test("is refused when others can enter its parent", () => {
    chmodSync(runtimeDirectory, 0o777);
    expect(refusal(() => openStateRoot({ XDG_RUNTIME_DIR: runtimeDirectory }, uid))).toContain("0777");
  });

  test("is refused when it belongs to someone else", () => {
    expect(refusal(() => requirePrivateDirectory(runtimeDirectory, uid + 1))).toContain(`belongs to uid ${uid}`);
  });

  test("is refused when it is a file, and when its parent does not exist", () => {
    writeFileSync(join(runtimeDirectory, "vmapp"), "");
    expect(refusal(() => openStateRoot({ XDG_RUNTIME_DIR: runtimeDirectory }, uid))).toContain("not a directory");
    expect(refusal(() => openStateRoot({ XDG_RUNTIME_DIR: "/nonexistent/dir" }, uid))).toContain("does not exist");
  });
});

/** The parts of the command line that need no guest. */
import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { runCli } from "#test/host/cli.ts";

let runtimeDirectory: string;

beforeEach(() => {
  runtimeDirectory = mkdtempSync(join(tmpdir(), "vmapp-cli-"));
});
afterEach(() => {
  rmSync(runtimeDirectory, { recursive: true, force: true });
});

function run(args: readonly string[], env: Readonly<Record<string, string>> = {}) {
  return runCli(args, { env: { XDG_RUNTIME_DIR: runtimeDirectory, ...env } });
}

describe("the command line", () => {
  test("says its version, both ways", async () => {
    const command = await run(["version"]);
    const option = await run(["--version"]);
    expect(command.code).toBe(0);
    expect(command.stdout).toMatch(/^vmapp \d+\.\d+\.\d+ \(Bun /);
    expect(option.code).toBe(0);
    expect(command.stdout).toContain(option.stdout.trim());
  });

  test("teaches by examples, for the whole and for each command", async () => {
    const help = await run(["--help"]);
    expect(help).toMatchObject({ code: 0, stderr: "" });
    expect(help.stdout).toContain("vmapp run --name a --detach");
    expect(help.stdout).not.toContain("own-vm");
    for (const command of ["run", "exec", "stop"]) {
      const { code, stdout } = await run([command, "--help"]);
      expect(code).toBe(0);
      expect(stdout).toMatch(/Examples?:\n {2}vmapp /);
    }
  });

  test.each([
    ["an unknown command", ["nonsense"], "nonsense"],
    ["an unknown option", ["run", "--nonsense"], "--nonsense"],
    ["a missing argument", ["stop"], "name"],
    ["a bad size", ["run", "--memory", "lots"], "lots"],
    ["a bad choice", ["run", "--net", "carrier-pigeon"], "carrier-pigeon"],
    ["a bad name", ["run", "--name", "A_b"], '"A_b"'],
    ["too little memory", ["run", "--memory", "8"], "8"],
    ["a command for a VM in the background", ["run", "--detach", "--", "true"], "vmapp exec"],
    ["a VM that is not there", ["stop", "nobody"], "nobody"],
    ["the log of a VM that is not there", ["logs", "nobody"], "nobody"],
  ])("refuses %s with 255 and says what is wrong", async (_what, args, named) => {
    const { code, stdout, stderr } = await run(args);
    expect({ code, stdout }).toEqual({ code: 255, stdout: "" });
    expect(stderr).toContain(named);
  });

  test("lists nothing where there is nothing", async () => {
    expect(await run(["list", "--json"])).toEqual({ code: 0, stdout: "[]\n", stderr: "" });
    expect((await run(["list"])).stdout).toMatch(/^NAME +STATE/);
  });

  test("will not keep VMs where others can look, and says how to mend it", async () => {
    const root = join(runtimeDirectory, "vmapp");
    mkdirSync(root);
    chmodSync(root, 0o755);
    const { code, stderr } = await run(["run", "--name", "a"]);
    expect(code).toBe(255);
    expect(stderr).toContain(`chmod 0700 ${root}`);
  });

  test("will not start a VM whose sockets would have too long a path", async () => {
    const long = join(runtimeDirectory, "x".repeat(90));
    mkdirSync(long, { mode: 0o700 });
    const { code, stderr } = await run(["run", "--name", "a"], { XDG_RUNTIME_DIR: long });
    expect(code).toBe(255);
    expect(stderr).toContain("at most 107");
    const [left] = JSON.parse((await run(["list", "--json"], { XDG_RUNTIME_DIR: long })).stdout);
    expect(left).toMatchObject({ name: "a", state: "crashed" });
  });
});

describe("vmapp doctor", () => {
  test("tells machines of every thing that running a VM needs", async () => {
    const { code, stdout } = await run(["doctor", "--json"]);
    const checks: { what: string; status: string }[] = JSON.parse(stdout);
    expect(code).toBe(checks.some(({ status }) => status === "lacking") ? 1 : 0);
    expect(checks.map(({ what }) => what)).toEqual([
      "runtime",
      "qemu-system-x86_64",
      "KVM",
      "vsock",
      "setpriv",
      "mkfs.ext4",
      "state directory",
      "image",
    ]);
  });

  test("exits with 1 where something is lacking, and names the command that mends each", async () => {
    writeFileSync(join(runtimeDirectory, "vmapp"), "");
    const nowhere = { PATH: "/nonexistent", VMAPP_IMAGE: "/nonexistent", VMAPP_VHOST_DEVICE_VSOCK: "/nonexistent" };
    const { code, stdout } = await run(["doctor"], nowhere);
    expect(code).toBe(1);
    for (const mend of ["apt-get install --no-install-recommends qemu-system-x86", "make image", "mktemp"]) {
      expect(stdout).toContain(mend);
    }
    expect(stdout).toMatch(/^lacking {2}qemu-system-x86_64/m);
  });
});

import { expect, test } from "bun:test";
import { randomBytes } from "node:crypto";
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { parsePlace } from "#host/cli/place.ts";
import { progressLine } from "#host/cli/progress-bar.ts";
import { Daemon } from "../control/daemon.ts";
import { runCli } from "../host/cli.ts";
import { temporaryFolder } from "../temporary-folder.ts";

const local = temporaryFolder();

const at = (daemon: Daemon, path: string): string => `unix:${daemon.directory}:${join(daemon.root, path)}`;
const fine = { code: 0, stdout: "", stderr: "" };

test("cp copies a file both ways and keeps its mode and time, without a word when there is no terminal", async () => {
  await using daemon = await Daemon.start();
  const source = join(local, "f");
  writeFileSync(source, randomBytes(100_000));
  chmodSync(source, 0o751);
  utimesSync(source, 1_600_000_000, 1_600_000_000);
  expect(await runCli(["cp", source, at(daemon, "x")])).toEqual(fine);
  expect(await runCli(["cp", at(daemon, "x"), join(local, "back")])).toEqual(fine);
  expect(readFileSync(join(local, "back"))).toEqual(readFileSync(source));
  expect(statSync(join(local, "back")).mode & 0o777).toBe(0o751);
  expect(statSync(join(local, "back")).mtimeMs).toBe(1_600_000_000_000);
}, 30_000);

test("cp puts sources beneath their names into a folder that exists, and folders whole", async () => {
  await using daemon = await Daemon.start();
  mkdirSync(join(local, "tree/sub"), { recursive: true });
  writeFileSync(join(local, "tree/sub/f"), "1");
  writeFileSync(join(local, "g"), "2");
  expect(await runCli(["cp", join(local, "tree"), join(local, "g"), at(daemon, "")])).toEqual(fine);
  expect(readdirSync(daemon.root).sort()).toEqual(["g", "tree"]);
  mkdirSync(join(local, "into"));
  expect(await runCli(["cp", at(daemon, "tree"), at(daemon, "g"), join(local, "into")])).toEqual(fine);
  expect(readFileSync(join(local, "into/tree/sub/f"), "utf8")).toBe("1");
  expect((await runCli(["cp", join(local, "g"), join(local, "f"), at(daemon, "g")])).code).toBe(255);
}, 30_000);

test("cp - takes standard input and gives standard output", async () => {
  await using daemon = await Daemon.start();
  const bytes = randomBytes(3_000_000);
  expect(await runCli(["cp", "-", at(daemon, "in")], { stdin: bytes })).toEqual(fine);
  expect(readFileSync(join(daemon.root, "in"))).toEqual(bytes);
  writeFileSync(join(daemon.root, "text"), "hello\n");
  expect(await runCli(["cp", at(daemon, "text"), "-"])).toEqual({ code: 0, stdout: "hello\n", stderr: "" });
}, 30_000);

test("what fails says what and why, and exits with 255", async () => {
  await using daemon = await Daemon.start();
  const missing = await runCli(["cp", at(daemon, "nothing"), join(local, "x")]);
  expect(missing).toMatchObject({ code: 255, stdout: "" });
  expect(missing.stderr).toContain(`there is no ${join(daemon.root, "nothing")} in the guest`);
  expect((await runCli(["cp", "/etc/hostname", "/tmp/x"])).stderr).toContain("write TARGET:/path");
  expect((await runCli(["ls", `unix:${local}:/`])).stderr).toContain(`there is no socket ${local}/1337.sock`);
  expect((await runCli(["ls", "a:relative"])).stderr).toContain("a path in a guest is absolute");
}, 30_000);

test("ls, mkdir, mv and rm do in a guest what their namesakes do", async () => {
  await using daemon = await Daemon.start();
  expect(await runCli(["mkdir", at(daemon, "a/b"), at(daemon, "c")])).toEqual(fine);
  writeFileSync(join(daemon.root, "f\n"), "123");
  expect((await runCli(["ls", at(daemon, "")])).stdout).toBe("a\nc\nf\\x0a\n");
  expect((await runCli(["ls", "-l", at(daemon, "")])).stdout).toMatch(/^MODE +SIZE .*\nd755 .*a\n/);
  expect(JSON.parse((await runCli(["ls", "--json", at(daemon, "")])).stdout)).toHaveLength(3);
  expect(await runCli(["mv", at(daemon, "f\n"), at(daemon, "c")])).toEqual(fine);
  expect(existsSync(join(daemon.root, "c/f\n"))).toBe(true);
  expect((await runCli(["rm", at(daemon, "a")])).stderr).toContain("remove it with -r");
  expect(await runCli(["rm", "-r", at(daemon, "a"), at(daemon, "c")])).toEqual(fine);
  expect((await runCli(["rm", at(daemon, "a")])).code).toBe(255);
  expect(await runCli(["rm", "-f", at(daemon, "a")])).toEqual(fine);
  expect(readdirSync(daemon.root)).toEqual([]);
}, 60_000);

test("stats tells what the guest uses", async () => {
  await using daemon = await Daemon.start();
  const target = `unix:${daemon.directory}`;
  const { stdout } = await runCli(["stats", "--json", target]);
  expect(JSON.parse(stdout)).toMatchObject({ processes: expect.any(Number), disk: { path: "/" } });
  expect((await runCli(["stats", target])).stdout).toMatch(/memory .* available/);
}, 30_000);

test("places are told apart by their colons and slashes", () => {
  const guest = (target: string, path: string) => ({ kind: "guest", target, path }) as const;
  expect(parsePlace("a:/x:y")).toEqual(guest("a", "/x:y"));
  expect(parsePlace("vsock:3:/x")).toEqual(guest("vsock:3", "/x"));
  expect(parsePlace("hybrid:/run/v.sock:/x")).toEqual(guest("hybrid:/run/v.sock", "/x"));
  expect(parsePlace("./a:b")).toEqual({ kind: "local", path: "./a:b" });
  expect(parsePlace("/a:/b")).toEqual({ kind: "local", path: "/a:/b" });
  expect(parsePlace("plain")).toEqual({ kind: "local", path: "plain" });
  expect(parsePlace("-")).toEqual({ kind: "stream" });
  expect(() => parsePlace("a:b")).toThrow("absolute");
});

test("a progress line never leaves its terminal's width", () => {
  const progress = { bytes: 5_000_000, totalBytes: 10_000_000, files: 1, totalFiles: 3 };
  expect(progressLine("/a/very/long/name".repeat(10), progress, 2, 100).length).toBeLessThan(100);
  expect(progressLine("f", progress, 2, 20).length).toBeLessThan(20);
  expect(progressLine("f", progress, 2, 100)).toContain(" 50%  4.8 MiB of 9.5 MiB  2.4 MiB/s  1/3 files");
});

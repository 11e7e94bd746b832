import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { existsSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Console } from "#host/clients/console/console.ts";
import { serverCommand } from "#test/console/servers.ts";

const text = (bytes: Uint8Array) => Buffer.from(bytes).toString();
const bytes = (value: string) => Buffer.from(value);

let directory: string;
let session: Console;
beforeAll(async () => {
  directory = mkdtempSync(join(tmpdir(), "vmapp-console-"));
  session = await Console.open({ server: { command: serverCommand, cwd: directory } });
});
afterAll(async () => {
  await session?.close();
  rmSync(directory, { recursive: true, force: true });
});

describe("where the session stands", () => {
  test("is moved by cd: relative, up, absolute, and home without a word", async () => {
    mkdirSync(join(directory, "a/b"), { recursive: true });
    const pwd = async () => text((await session.exec(["pwd"])).stdout).trim();
    const inShell = async () => text((await session.exec(["sh", "-c", "pwd"])).stdout).trim();
    for (const [word, where] of [
      ["a", "/a"],
      ["b", "/a/b"],
      ["..", "/a"],
      ["./b/../b", "/a/b"],
      [directory, ""],
      ["", ""],
    ] as const) {
      expect(await session.exec(["cd", word])).toEqual({
        code: 0,
        stdout: Buffer.alloc(0),
        stderr: Buffer.alloc(0),
        truncated: false,
      });
      expect(await pwd()).toBe(directory + where);
      expect(await inShell()).toBe(directory + where);
    }
    await session.exec(["cd", "/"]);
    expect(await pwd()).toBe("/");
    await session.exec(["cd", "../../.."]);
    expect(await pwd()).toBe("/");
    await session.exec(["cd"]);
    expect(await pwd()).toBe(directory);
  });

  test("is where relative reads and writes land", async () => {
    await session.exec(["cd", "a/b"]);
    await session.write("here", bytes("x"));
    expect(existsSync(join(directory, "a/b/here"))).toBe(true);
    expect(text((await session.read("../b/here")).data)).toBe("x");
    await session.exec(["cd"]);
  });

  test("stays when a cd cannot happen, and the result says why", async () => {
    writeFileSync(join(directory, "file"), "");
    for (const [words, reason] of [
      [["nowhere"], /^cd: .*nowhere: no such file or directory\n$/],
      [["file"], /^cd: .*file: not a directory\n$/],
      [["a", "b"], /^cd: too many arguments\n$/],
      [["-"], /^cd: .*-: no such file/],
      [["~"], /^cd: .*~: no such file/],
    ] as const) {
      const run = await session.exec(["cd", ...words]);
      expect(run.code).toBe(1);
      expect(run.stdout.length).toBe(0);
      expect(text(run.stderr)).toMatch(reason);
      expect(text((await session.exec(["pwd"])).stdout)).toBe(`${directory}\n`);
    }
  });

  test("is moved by the first word cd and nothing else", async () => {
    await session.exec(["sh", "-c", "cd a && pwd"]);
    await expect(session.exec(["cdx", "a"])).rejects.toMatchObject({ code: -32001 });
    expect(text((await session.exec(["pwd"])).stdout)).toBe(`${directory}\n`);
  });

  test("keeps the spelling that the client gave, through a link too", async () => {
    symlinkSync("a", join(directory, "other-name"));
    await session.exec(["cd", "other-name"]);
    expect(text((await session.exec(["pwd"])).stdout)).toBe(`${directory}/other-name\n`);
    expect(text((await session.exec(["sh", "-c", "pwd"])).stdout)).toBe(`${directory}/other-name\n`);
    await session.exec(["cd", ".."]);
    expect(text((await session.exec(["pwd"])).stdout)).toBe(`${directory}\n`);
  });

  test("survives a stop and a start", async () => {
    await session.exec(["cd", "a"]);
    await session.stop();
    expect(text((await session.exec(["pwd"])).stdout)).toBe(`${directory}/a\n`);
    await session.stop();
    await session.start();
    await session.start();
    expect(text((await session.exec(["sh", "-c", "pwd"])).stdout)).toBe(`${directory}/a\n`);
    await session.exec(["cd"]);
  });

  test("has no name when that directory is gone or is not UTF-8, and absolute paths go on", async () => {
    for (const enter of ["mkdir gone && cd gone && rmdir ../gone", "mkdir $(printf 'bad\\377') && cd bad*"]) {
      const command = ["sh", "-c", `cd ${directory} && ${enter} && exec "$@"`, "sh", ...serverCommand];
      await using nowhere = await Console.open({ server: { command } });
      expect(nowhere.cwd).toBeUndefined();
      await expect(nowhere.exec(["true"])).rejects.toMatchObject({
        code: -32001,
        message: expect.stringContaining("stands nowhere"),
      });
      await expect(nowhere.read("file")).rejects.toMatchObject({
        code: -32005,
        message: expect.stringContaining("stands nowhere"),
      });
      for (const words of [["cd"], ["cd", "a"]]) expect((await nowhere.exec(words)).code).toBe(1);
      expect((await nowhere.read(join(directory, "file"))).size).toBe(0);
      expect((await nowhere.exec(["cd", directory])).code).toBe(0);
      expect(text((await nowhere.exec(["ls", "file"])).stdout)).toBe("file\n");
    }
  });
});

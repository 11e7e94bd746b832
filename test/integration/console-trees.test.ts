import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import {
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Console, type ConsoleOptions } from "#host/clients/console/console.ts";
import { serverCommand } from "#test/console/servers.ts";

const text = (bytes: Uint8Array) => Buffer.from(bytes).toString();
const bytes = (value: string) => Buffer.from(value);

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "vmapp-console-"));
  for (const name of ["project", "out"]) mkdirSync(join(directory, name));
  writeFileSync(join(directory, "project/notes"), "read me");
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

const at = (name: string) => join(directory, name);
const open = (options: Omit<ConsoleOptions, "server">) =>
  Console.open({ server: { command: serverCommand }, ...options });

const twoTrees = () =>
  open({
    mounts: [
      { source: at("project"), guestPath: at("session/work"), readOnly: true },
      { source: at("out"), guestPath: at("session/out") },
    ],
  });

describe("a session's trees on the server's own machine", () => {
  test("are where the client named them, and gone with the session", async () => {
    await using session = await twoTrees();
    expect(session.cwd).toBe(at("session/work"));
    expect(session.mounts).toEqual([at("session/work"), at("session/out")]);
    expect(existsSync(at("session"))).toBe(false);
    expect(text((await session.exec(["cat", "notes"])).stdout)).toBe("read me");
    expect(text((await session.read(at("session/work/notes"))).data)).toBe("read me");
    expect(text((await session.exec(["sh", "-c", "pwd"])).stdout)).toBe(`${at("session/work")}\n`);
    await session.write(at("session/out/result"), bytes("done"));
    expect(readFileSync(at("out/result"), "utf8")).toBe("done");
    await session.close();
    expect(existsSync(at("session"))).toBe(false);
    expect(readFileSync(at("out/result"), "utf8")).toBe("done");
  });

  test("are taken away by a stop and put back at the same places by the next call", async () => {
    await using session = await twoTrees();
    await session.start();
    await session.exec(["true"]);
    expect(lstatSync(at("session/work")).isSymbolicLink()).toBe(true);
    await session.stop();
    // A notification has no answer: the next call that needs no boot shows that it was served.
    expect((await session.exec(["cd", at("session/out")])).code).toBe(0);
    await session.write("again", bytes("x"));
    expect(existsSync(at("out/again"))).toBe(true);
  });

  test("take no write when they are read-only: absolute, relative, by .., through links", async () => {
    symlinkSync("../project", at("out/way-in"));
    symlinkSync("../project/not-yet", at("out/dangling"));
    await using session = await twoTrees();
    for (const path of [
      at("session/work/new"),
      "new",
      "notes",
      at("session/out/../../project/new"),
      at("session/out/way-in/new"),
      at("session/out/dangling"),
      at("project/new"),
    ]) {
      await expect(session.write(path, bytes("x"))).rejects.toMatchObject({
        code: -32007,
        message: `${path}: read-only file system`,
      });
    }
    expect(readFileSync(at("project/notes"), "utf8")).toBe("read me");
    expect(existsSync(at("project/new"))).toBe(false);
    expect(existsSync(at("project/not-yet"))).toBe(false);
    expect(text((await session.read("notes")).data)).toBe("read me");
    expect(await session.write(at("session/out/new"), bytes("x"))).toBe(1);
  });

  test("obey the innermost of two", async () => {
    mkdirSync(at("project/inner"));
    await using session = await open({
      mounts: [
        { source: at("project"), guestPath: at("project"), readOnly: true },
        { source: at("project/inner"), guestPath: at("project/inner") },
      ],
    });
    await expect(session.write(at("project/x"), bytes("x"))).rejects.toMatchObject({ code: -32007 });
    expect(await session.write(at("project/inner/x"), bytes("x"))).toBe(1);
  });

  test("that are where they belong already are used as they are", async () => {
    await using session = await open({ mounts: [{ source: at("project"), guestPath: at("project") }] });
    expect(text((await session.exec(["cat", "notes"])).stdout)).toBe("read me");
    await session.close();
    expect(lstatSync(at("project")).isDirectory()).toBe(true);
  });

  test("that are not there fail the boot and not the init, call after call, until they are", async () => {
    await using session = await open({
      mounts: [
        { source: at("out"), guestPath: at("session/out") },
        { source: at("later"), guestPath: at("session/later") },
      ],
    });
    for (const call of [
      () => session.exec(["true"]),
      () => session.read("x"),
      () => session.write("x", bytes("x")),
      () => session.snapshot(),
    ]) {
      await expect(call()).rejects.toMatchObject({ code: -32009, message: expect.stringContaining(at("later")) });
    }
    expect(existsSync(at("session"))).toBe(false);
    mkdirSync(at("later"));
    expect((await session.exec(["ls", at("session/later")])).code).toBe(0);
  });

  test("that are no directories, or whose place is taken, fail the boot", async () => {
    writeFileSync(at("file"), "");
    mkdirSync(at("taken"));
    for (const mount of [
      { source: at("file"), guestPath: at("session/x") },
      { source: at("out"), guestPath: at("taken") },
      { source: at("out"), guestPath: at("file/below") },
    ]) {
      await using session = await open({ mounts: [mount] });
      await expect(session.exec(["true"])).rejects.toMatchObject({ code: -32009 });
    }
    expect(lstatSync(at("taken")).isDirectory()).toBe(true);
  });
});

describe("an init that the server's own machine cannot serve", () => {
  const cases: readonly [string, Omit<ConsoleOptions, "server">, number][] = [
    ["a tree over HTTP", { mounts: [{ source: "https://example.com/x", guestPath: "/w" }] }, -32008],
    ["a tree by its tag", { mounts: [{ source: "virtiofs://work", guestPath: "/w" }] }, -32008],
    ["no network", { network: false }, -32010],
    ["a port", { ports: ["8080:80"] }, -32010],
    ["a port without a network", { network: false, ports: ["8080:80"] }, -32602],
    ["an image", { image: { type: "ref", ref: "a:b" } }, -32011],
    ["a snapshot to start from", { snapshot: new Uint8Array(1024) }, -32011],
    ["vCPUs", { vcpus: 2 }, -32013],
    ["memory", { memoryMib: 512 }, -32013],
    ["a disk", { diskGib: 1 }, -32013],
    ["a GPU", { gpu: true }, -32013],
    ["GPU memory and nothing said of a GPU", { gpuMemoryMib: 1 }, -32602],
    ["no vCPUs at all", { vcpus: 0 }, -32602],
  ];
  for (const [name, options, code] of cases) {
    test(`is refused with its own code: ${name}`, async () => {
      await expect(open(options)).rejects.toMatchObject({ name: "ConsoleRefusedError", code });
    });
  }

  test("does not include one that declines a GPU", async () => {
    await using session = await open({ gpu: false });
    expect((await session.exec(["true"])).code).toBe(0);
  });

  test("has no snapshot either, and the session goes on", async () => {
    await using session = await open({});
    await expect(session.snapshot()).rejects.toMatchObject({ code: -32011 });
    expect((await session.exec(["true"])).code).toBe(0);
  });
});

test("a mount that has no spelling is refused before the server is started", async () => {
  const command = ["/no/such/server"];
  for (const guestPath of ["relative", "/with:colon", ""]) {
    await expect(Console.open({ server: { command }, mounts: [{ source: "/srv", guestPath }] })).rejects.toThrow(
      RangeError,
    );
  }
  await expect(Console.open({ server: { command }, ports: ["80"] })).rejects.toThrow(RangeError);
});

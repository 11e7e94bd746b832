/** What the file commands must not do, however they are called and whatever a guest answers. */
import { expect, test } from "bun:test";
import { randomBytes } from "node:crypto";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { createServer, type Server, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ports, unixSocketName } from "#protocol/ports.ts";
import { Daemon } from "../control/daemon.ts";
import { frame, type Json, RawPeer } from "../control/raw-peer.ts";
import { cliCommand, runCli, spawnCli } from "../host/cli.ts";
import { temporaryFolder } from "../temporary-folder.ts";

const local = temporaryFolder();

const at = (daemon: Daemon, path: string): string => `unix:${daemon.directory}:${daemon.root}/${path}`;
const fine = { code: 0, stdout: "", stderr: "" };

test("cp of a path that ends in .. stays within the folder that it copies into", async () => {
  await using daemon = await Daemon.start();
  mkdirSync(join(daemon.root, "a/b"), { recursive: true });
  writeFileSync(join(daemon.root, "a/f"), "f");
  mkdirSync(join(local, "outer/into"), { recursive: true });
  for (const end of ["a/b/..", "a/."]) {
    expect(await runCli(["cp", at(daemon, end), join(local, "outer/into")])).toEqual(fine);
    expect(readdirSync(join(local, "outer"))).toEqual(["into"]);
    expect(readdirSync(join(local, "outer/into"))).toEqual(["a"]);
    expect(readFileSync(join(local, "outer/into/a/f"), "utf8")).toBe("f");
    rmSync(join(local, "outer/into/a"), { recursive: true });
  }
}, 30_000);

test("cp makes a folder the destination that does not exist, whether a slash is behind it or not", async () => {
  await using daemon = await Daemon.start();
  const source = join(local, "source");
  mkdirSync(source);
  writeFileSync(join(source, "f"), "f");
  for (const end of ["", "/"]) {
    const name = `made${end.length}`;
    expect(await runCli(["cp", `${source}${end}`, at(daemon, `${name}${end}`)])).toEqual(fine);
    expect(readdirSync(join(daemon.root, name))).toEqual(["f"]);
    expect(await runCli(["cp", at(daemon, `${name}${end}`), join(local, `${name}${end}`)])).toEqual(fine);
    expect(readdirSync(join(local, name))).toEqual(["f"]);
  }
  expect(await runCli(["cp", join(source, "f"), source, at(daemon, "several/")])).toEqual(fine);
  expect(readdirSync(join(daemon.root, "several")).sort()).toEqual(["f", "source"]);
}, 30_000);

test("rm does not take . or .. for the folder that they stand for", async () => {
  await using daemon = await Daemon.start();
  mkdirSync(join(daemon.root, "a/b"), { recursive: true });
  for (const end of ["a/.", "a/b/..", "a/b/../"]) {
    expect(await runCli(["rm", "-rf", at(daemon, end)])).toMatchObject({ code: 255, stdout: "" });
  }
  expect(existsSync(join(daemon.root, "a/b"))).toBe(true);
  expect(await runCli(["rm", "-r", at(daemon, "a/b/")])).toEqual(fine);
}, 30_000);

test("cp says how many files it left out because of their names", async () => {
  await using daemon = await Daemon.start();
  mkdirSync(join(daemon.root, "names"));
  writeFileSync(Buffer.concat([Buffer.from(`${daemon.root}/names/a`), Buffer.from([0xff])]), "x");
  const { code, stderr } = await runCli(["cp", at(daemon, "names"), join(local, "names")]);
  expect({ code, stderr }).toEqual({
    code: 0,
    stderr: `vmapp: left out, names that are not UTF-8: 1 in ${daemon.root}/names\n`,
  });
}, 30_000);

test("cp of standard input that a signal ends leaves nothing on either side, and tells the signal", async () => {
  await using daemon = await Daemon.start();
  const spools = mkdtempSync(join(local, "tmp-"));
  const child = Bun.spawn(cliCommand(["cp", "-", at(daemon, "x")]), {
    stdin: "pipe",
    stderr: "inherit",
    env: { ...process.env, TMPDIR: spools },
  });
  child.stdin.write(randomBytes(100_000));
  await child.stdin.flush();
  const spooled = (): number =>
    readdirSync(spools).reduce((sum, name) => {
      const path = join(spools, name, "stdin");
      return sum + (existsSync(path) ? statSync(path).size : 0);
    }, 0);
  while (spooled() < 100_000) await Bun.sleep(5);
  child.kill("SIGINT");
  expect(await child.exited).toBe(130);
  expect(readdirSync(spools)).toEqual([]);
  expect(readdirSync(daemon.root)).toEqual([]);
}, 30_000);

test("cp that a signal ends in mid-download leaves nothing of a small file", async () => {
  await using guest = await FakeGuest.start((peer, request) => {
    if (request.t === "file_stat")
      peer.send({ v: 1, t: "file_stat", id: request.id, type: "file", size: 900_000, perm: "644", mtime: 1 });
    else
      peer.sendBytes(
        Buffer.concat([frame({ v: 1, t: "file_data", id: request.id, size: 900_000 }), randomBytes(1000)]),
      );
  });
  const into = mkdtempSync(join(local, "into-"));
  const child = spawnCli(["cp", `${guest.target}:/f`, join(into, "f")]);
  while (!readdirSync(into).some((name) => statSync(join(into, name)).size > 0)) await Bun.sleep(5);
  child.kill("SIGTERM");
  expect(await child.exited).toBe(143);
  expect(readdirSync(into)).toEqual([]);
}, 30_000);

test("cp of standard input onto a folder is refused before it is read", async () => {
  await using daemon = await Daemon.start();
  const child = Bun.spawn(cliCommand(["cp", "-", at(daemon, "")]), { stdin: "pipe", stderr: "pipe" });
  expect(await child.exited).toBe(255);
  expect(await new Response(child.stderr).text()).toContain("standard input needs the name of a file");
}, 30_000);

test("a guest's words do not steer the terminal, and times that no date can hold are shown as numbers", async () => {
  await using guest = await FakeGuest.start((peer, { id, t }) => {
    const entry = { type: "file", size: 1, perm: "644", mtime: 9e15 };
    if (t === "file_stat") peer.send({ v: 1, t, id, ...entry, type: "dir" });
    else if (t === "file_list") peer.send({ v: 1, t: "ok", id, entries: [{ name: "\x1b[31m\x9b", ...entry }] });
    else peer.send({ v: 1, t: "err", id, msg: "no\x1b]0;title\x07\x9b31m" });
  });
  const { code, stdout } = await runCli(["ls", "-l", `${guest.target}:/`]);
  expect({ code, stdout }).toEqual({
    code: 0,
    stdout: "MODE  SIZE  CHANGED (UTC)      NAME\n-644  1     @9000000000000000  \\x1b[31m\\x9b\n",
  });
  const refused = await runCli(["mkdir", `${guest.target}:/x`]);
  expect(refused.code).toBe(255);
  expect(refused.stderr).not.toMatch(/[\x00-\x08\x0b-\x1f\x7f-\x9f]/);
  expect(refused.stderr).toContain("no\\x1b]0;title");
}, 30_000);

test("vmapp update says when a guest takes no updates, and takes nothing but a file for a program", async () => {
  await using daemon = await Daemon.start({ updates: undefined });
  const program = join(local, "program");
  writeFileSync(program, "another");
  const target = `unix:${daemon.directory}`;
  expect(await runCli(["update", target, program])).toMatchObject({
    code: 255,
    stdout: "",
    stderr: expect.stringContaining("takes no updates"),
  });
  expect(await runCli(["update", target, local])).toMatchObject({
    code: 255,
    stdout: "",
    stderr: expect.stringContaining("is not a regular file"),
  });
  expect(await runCli(["update", target, "/etc/hostname"])).toMatchObject({ code: 0, stderr: "" });
}, 30_000);

/** A guest that answers requests with whatever a test wants. */
class FakeGuest implements AsyncDisposable {
  readonly #sockets = new Set<Socket>();

  private constructor(
    readonly directory: string,
    private readonly server: Server,
  ) {
    server.on("connection", (socket: Socket) => this.#sockets.add(socket.on("error", () => {})));
  }

  static async start(answer: (peer: RawPeer, request: Json) => void): Promise<FakeGuest> {
    const directory = mkdtempSync(join(tmpdir(), "vmapp-fake-"));
    const caps = ["file", "file.stat"];
    const server = createServer(async (socket) => {
      const peer = RawPeer.over(socket);
      for (let request = await peer.reply(); request !== undefined; request = await peer.reply()) {
        if (request.t === "hello") peer.send({ v: 1, t: "hello", name: "vphoned", caps });
        else answer(peer, request);
      }
    });
    const guest = new FakeGuest(directory, server);
    await new Promise<void>((resolve) => server.listen(join(directory, unixSocketName(ports.control)), resolve));
    return guest;
  }

  get target(): string {
    return `unix:${this.directory}`;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    await new Promise<void>((resolve) => this.server.close(() => resolve()));
    rmSync(this.directory, { recursive: true, force: true });
  }
}

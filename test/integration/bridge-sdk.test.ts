import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { maxLineBytes } from "#protocol/bridge/lines.ts";
import { eventually } from "#test/shell/processes.ts";
import { type CoreProcess, type HostLines, startCore } from "./bridge-core-process.ts";

const coreSource = new URL("./bridge-core.ts", import.meta.url).pathname;
let bundleDirectory: string;
let nodeBundle: string;
beforeAll(() => {
  bundleDirectory = mkdtempSync(join(tmpdir(), "vmapp-core-bundle-"));
  nodeBundle = join(bundleDirectory, "core.mjs");
  execFileSync(process.execPath, ["build", coreSource, "--target=node", "--format=esm", `--outfile=${nodeBundle}`]);
});
afterAll(() => rmSync(bundleDirectory, { recursive: true, force: true }));

const started: CoreProcess[] = [];
afterEach(async () => {
  for (const core of started.splice(0)) await core.stop();
});

describe.each(["Bun", "Node"])("the core end on %s", (runtime) => {
  const command = () => (runtime === "Bun" ? [process.execPath, coreSource] : ["node", nodeBundle]);

  async function start(env: Record<string, string> = {}, directory?: string): Promise<CoreProcess> {
    const core = await startCore({ command: command(), env, ...(directory === undefined ? {} : { directory }) });
    started.push(core);
    return core;
  }

  async function startReady(env: Record<string, string> = {}): Promise<{ core: CoreProcess; host: HostLines }> {
    const core = await start(env);
    const host = await core.connect();
    await host.start();
    return { core, host };
  }

  async function expectAnswers(host: HostLines, id = 999): Promise<void> {
    expect(await host.invoke(id, "echo", "still", "here")).toMatchObject({ result: ["still", "here"] });
  }

  describe("1: listening", () => {
    test("the socket is for its user alone, and an old socket file is replaced", async () => {
      const directory = mkdtempSync(join(tmpdir(), "vmapp-core-"));
      mkdirSync(join(directory, "run"));
      writeFileSync(join(directory, "run", "app.sock"), "left behind");
      const core = await start({}, directory);
      expect(statSync(core.socketPath).mode & 0o777).toBe(0o600);
      const host = await core.connect();
      await host.start();
      await expectAnswers(host);
    });

    test("a newer connection replaces the older, whose pending invokes are dropped", async () => {
      const { core, host: older } = await startReady();
      older.send({ t: "invoke", id: 1, win: 1, channel: "slow", args: [300] });
      await expectAnswers(older, 2);
      const newer = await core.connect();
      await older.ended;
      await newer.start();
      await expectAnswers(newer, 1);
      await new Promise((resolve) => setTimeout(resolve, 400));
      expect(newer.messages.filter(({ t, id }) => t === "result" && id === 1)).toHaveLength(1);
      expect(newer.messages.some(({ result }) => result === 300)).toBe(false);
    });
  });

  describe("2: reading lines", () => {
    test("lines are read however they are cut, in the middle of a character too", async () => {
      const { host } = await startReady();
      const line = Buffer.from('{"t":"invoke","id":1,"win":1,"channel":"echo","args":["€ 😀"]}\n\n');
      for (const byte of line) {
        host.raw(Uint8Array.of(byte));
        await new Promise((resolve) => setTimeout(resolve, 1));
      }
      expect(await host.next(({ t }) => t === "result")).toMatchObject({ id: 1, result: ["€ 😀"] });
    });

    test.each([
      ["an unknown type", '{"t":"stream","id":1}'],
      ["text that is not JSON", "hello"],
      ["an array", "[]"],
      ["an object without a type", '{"id":1}'],
      ["a message of the other direction", '{"t":"ready"}'],
      ["a send without a channel", '{"t":"send","win":1,"args":[]}'],
      ["an answer to nothing", '{"t":"reply","id":77,"result":1}'],
    ])("%s is logged and ignored", async (_, line) => {
      const { core, host } = await startReady();
      host.raw(`${line}\n`);
      await expectAnswers(host);
      const told = /vmapp-sdk: (message of unknown type|line dropped|reply to request 77 dropped)/;
      await eventually("the line in the log", () => told.test(core.log()));
    });

    test("a line of 16 MiB is read, and one over the limit ends the connection, not the app", async () => {
      const { core, host } = await startReady({ CORE_STAYS: "1" });
      const around = '{"t":"invoke","id":1,"win":1,"channel":"echo","args":["',
        end = '"]}';
      const fits = "f".repeat(maxLineBytes - around.length - end.length);
      host.raw(`${around}${fits}${end}\n`);
      // The answer is shorter than the question by more than its own frame is longer.
      const result = await host.next(({ t }) => t === "result", "the echo", 20_000);
      expect((result.result as string[])[0]?.length).toBe(fits.length);
      host.raw(`${around}${fits}f${end}\n`);
      await host.ended;
      const next = await core.connect();
      await next.start();
      await expectAnswers(next);
    });
  });

  describe("3: init", () => {
    test("folders, data directory and identity are stored, and ready is sent", async () => {
      const core = await start();
      const host = await core.connect();
      await host.start({ folders: { notes: "/host/f-notes", export: null }, data: "/data/x" });
      expect(await host.invoke(1, "state")).toMatchObject({
        result: {
          folders: { notes: "/host/f-notes", export: null },
          dataDir: "/data/x",
          name: "Test",
          version: "1.2.3",
        },
      });
    });

    test("ready comes before the requests of the start-up", async () => {
      const { host } = await startReady({ CORE_WINDOW: "1" });
      await host.next(({ t }) => t === "request");
      expect(host.lines.slice(0, 2)).toEqual([
        '{"t":"ready"}',
        '{"t":"request","id":1,"op":"window.create","params":{"entry":"index.html","width":980,"height":660,"title":"Core"}}',
      ]);
    });
  });

  describe("4: requests", () => {
    test("replies are matched by id, in whatever order they come", async () => {
      const { host } = await startReady();
      host.send({ t: "invoke", id: 1, win: 1, channel: "pick", args: [false] });
      host.send({ t: "invoke", id: 2, win: 1, channel: "pick", args: [true] });
      const first = await host.next(
        ({ op, params }) => op === "dialog.open" && !(params as { multiple: boolean }).multiple,
      );
      const second = await host.next(({ op }) => op === "dialog.open");
      host.send({ t: "reply", id: second.id, result: { canceled: false, paths: ["/b"] } });
      expect(await host.next(({ t }) => t === "result")).toMatchObject({ id: 2, result: { filePaths: ["/b"] } });
      host.send({ t: "reply", id: first.id, result: { canceled: true, paths: [] } });
      expect(await host.next(({ t }) => t === "result")).toMatchObject({ id: 1, result: { canceled: true } });
    });

    test("a second reply to the same request is dropped", async () => {
      const { core, host } = await startReady();
      host.send({ t: "invoke", id: 1, win: 1, channel: "clipboard", args: [] });
      const { id } = await host.next(({ op }) => op === "clipboard.read");
      host.send({ t: "reply", id, result: { text: "one" } });
      host.send({ t: "reply", id, result: { text: "two" } });
      expect(await host.next(({ t }) => t === "result")).toMatchObject({ result: "one" });
      await expectAnswers(host);
      await eventually("the line in the log", () => core.log().includes(`reply to request ${id} dropped`));
    });

    test("a refusal reaches the caller with its message and code", async () => {
      const { host } = await startReady();
      host.send({ t: "invoke", id: 1, win: 1, channel: "denied", args: [] });
      const { id } = await host.next(({ op }) => op === "dialog.message");
      host.send({ t: "reply", id, error: { message: "not allowed", code: "denied" } });
      expect(await host.next(({ t }) => t === "result")).toMatchObject({
        id: 1,
        error: { message: "dialog.message: not allowed", code: "denied" },
      });
    });

    test("pending requests fail when the host goes away", async () => {
      const { core, host } = await startReady({ CORE_STAYS: "1" });
      host.send({ t: "invoke", id: 1, win: 1, channel: "clipboard", args: [] });
      await host.next(({ op }) => op === "clipboard.read");
      host.close();
      const next = await core.connect();
      await next.start();
      await expectAnswers(next);
      expect(next.messages.some(({ op }) => op === "clipboard.read")).toBe(false);
    });
  });

  describe("5: invokes", () => {
    test("they run off the reading loop and finish in any order", async () => {
      const { host } = await startReady();
      host.send({ t: "invoke", id: 1, win: 1, channel: "slow", args: [300] });
      host.send({ t: "invoke", id: 2, win: 1, channel: "slow", args: [1] });
      await host.next(({ t, id }) => t === "result" && id === 1);
      expect(host.messages.filter(({ t }) => t === "result").map(({ id }) => id)).toEqual([2, 1]);
    });

    test("a handler may itself wait for a reply", async () => {
      const { host } = await startReady();
      host.send({ t: "invoke", id: 1, win: 1, channel: "pick", args: [false] });
      const request = await host.next(({ t }) => t === "request");
      expect(request).toEqual({
        t: "request",
        id: 1,
        op: "dialog.open",
        params: { directory: false, multiple: false },
      });
      host.send({ t: "reply", id: 1, result: { canceled: false, paths: ["/host/pick-0/ideas.txt"] } });
      expect(await host.next(({ t }) => t === "result")).toMatchObject({
        result: { canceled: false, filePaths: ["/host/pick-0/ideas.txt"] },
      });
    });

    test("a handler that throws is an error with its message and code", async () => {
      const { host } = await startReady();
      expect(await host.invoke(1, "throw")).toEqual({
        t: "result",
        id: 1,
        error: { message: "the handler failed", code: "E_TEST" },
      });
      expect(await host.invoke(2, "throw-text")).toMatchObject({ error: { message: "just text" } });
      await expectAnswers(host);
    });

    test("a channel without a handler is an error that names it", async () => {
      const { host } = await startReady();
      expect(await host.invoke(1, "nowhere")).toMatchObject({ error: { message: 'no handler for channel "nowhere"' } });
      await expectAnswers(host);
    });

    test.each(["undefined", "cycle", "bigint"])(
      "a result that JSON cannot carry (%s) is an error on that call",
      async (channel) => {
        const { host } = await startReady();
        expect(await host.invoke(1, channel)).toMatchObject({ error: { code: "unencodable" } });
        await expectAnswers(host);
      },
    );

    test("a result over 16 MiB is an error on that call, one just below it arrives", async () => {
      const { host } = await startReady();
      expect(await host.invoke(1, "blob", maxLineBytes)).toMatchObject({ error: { code: "too_large" } });
      const around = '{"t":"result","id":2,"result":""}'.length;
      expect(((await host.invoke(2, "blob", maxLineBytes - around)).result as string).length).toBe(
        maxLineBytes - around,
      );
      expect(await host.invoke(3, "blob", maxLineBytes - around + 1)).toMatchObject({ error: { code: "too_large" } });
      await expectAnswers(host);
    });

    test("an invoke that can be read no further than its id is answered with an error", async () => {
      const { host } = await startReady();
      host.raw('{"t":"invoke","id":5,"win":1,"channel":7,"args":[]}\n');
      expect(await host.next(({ id }) => id === 5)).toMatchObject({ error: { code: "bad_message" } });
      await expectAnswers(host);
    });

    test("exactly one result comes for an id that is used twice at once", async () => {
      const { host } = await startReady();
      host.send({ t: "invoke", id: 1, win: 1, channel: "slow", args: [100] });
      host.send({ t: "invoke", id: 1, win: 1, channel: "slow", args: [50] });
      await new Promise((resolve) => setTimeout(resolve, 300));
      expect(host.messages.filter(({ id }) => id === 1)).toHaveLength(1);
      await expectAnswers(host);
    });
  });

  describe("6 and 7: sends and pushes", () => {
    test("a send reaches its listener and is not answered; the listener pushes to the window it came from", async () => {
      const { host } = await startReady();
      host.send({ t: "send", win: 4, channel: "note", args: ["hi"] });
      expect(await host.next(({ t }) => t === "emit")).toEqual({ t: "emit", win: 4, channel: "noted", args: ["hi"] });
      expect(host.messages.map(({ t }) => t)).toEqual(["ready", "emit"]);
    });

    test("a listener that throws costs nothing but its own message", async () => {
      const { core, host } = await startReady();
      host.send({ t: "send", win: 1, channel: "broken", args: [] });
      await expectAnswers(host);
      await eventually("the line in the log", () => core.log().includes("the listener failed"));
    });

    test("a push to every window has no window", async () => {
      const { host } = await startReady();
      host.send({ t: "send", win: 1, channel: "to-all", args: ["x"] });
      expect(await host.next(({ t }) => t === "emit")).toEqual({ t: "emit", win: null, channel: "all", args: ["x"] });
    });

    test("20 000 pushes arrive in order", async () => {
      const { host } = await startReady();
      await host.invoke(1, "burst", 20_000);
      const ticks = host.messages.filter(({ t }) => t === "emit").map(({ args }) => (args as number[])[0]);
      expect(ticks).toEqual(Array.from({ length: 20_000 }, (_, index) => index));
    });
  });

  describe("8: windows", () => {
    async function startWithWindow(env: Record<string, string> = {}) {
      const { core, host } = await startReady({ CORE_WINDOW: "1", ...env });
      const { id } = await host.next(({ op }) => op === "window.create");
      host.send({ t: "reply", id, result: { win: 3 } });
      return { core, host };
    }

    test("events reach the window's listeners", async () => {
      const { host } = await startWithWindow();
      host.send({ t: "window", win: 3, event: "resize", data: { width: 5 } });
      expect(await host.next(({ t }) => t === "emit")).toMatchObject({
        win: 3,
        channel: "resized",
        args: [{ width: 5 }],
      });
    });

    test("the last window closed: the app quits, and says so first", async () => {
      const { core, host } = await startWithWindow();
      host.send({ t: "window", win: 3, event: "closed", data: {} });
      const request = await host.next(({ op }) => op === "app.quit");
      expect(request).toEqual({ t: "request", id: 2, op: "app.quit", params: {} });
      host.send({ t: "reply", id: request.id, result: null });
      expect(await core.ended).toBe(0);
    });

    test("an app that stays opens its windows again for the next host", async () => {
      const { core, host } = await startWithWindow({ CORE_STAYS: "1" });
      await expectAnswers(host);
      host.close();
      const next = await core.connect();
      await next.start();
      const { id } = await next.next(({ op }) => op === "window.create");
      next.send({ t: "reply", id, result: { win: 8 } });
      next.send({ t: "window", win: 8, event: "resize", data: 1 });
      expect(await next.next(({ t }) => t === "emit")).toMatchObject({ win: 8, channel: "resized" });
    });
  });

  describe("9 and 10: the end", () => {
    test("before-quit: the app saves and exits with 0", async () => {
      const directory = mkdtempSync(join(tmpdir(), "vmapp-core-"));
      const core = await start({ CORE_SAVE_PATH: join(directory, "saved") }, directory);
      const host = await core.connect();
      await host.start();
      host.send({ t: "before-quit" });
      expect(await core.ended).toBe(0);
      expect(readFileSync(join(directory, "saved"), "utf8")).toBe("saved");
    });

    test("at the host's end the app quits by default, after it has saved", async () => {
      const directory = mkdtempSync(join(tmpdir(), "vmapp-core-"));
      const core = await start({ CORE_SAVE_PATH: join(directory, "saved") }, directory);
      const host = await core.connect();
      await host.start();
      host.close();
      expect(await core.ended).toBe(0);
      expect(existsSync(join(directory, "saved"))).toBe(true);
    });

    test("an app may stay when the host goes, and serves the next one", async () => {
      const { core, host } = await startReady({ CORE_STAYS: "1" });
      host.close();
      const next = await core.connect();
      await next.start();
      await expectAnswers(next);
    });

    test("app.quit is told to the host before the app ends", async () => {
      const { core, host } = await startReady();
      await host.invoke(1, "quit");
      const { id } = await host.next(({ op }) => op === "app.quit");
      host.send({ t: "reply", id, result: null });
      expect(await core.ended).toBe(0);
    });
  });
});

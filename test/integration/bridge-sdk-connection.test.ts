/** The core end of the bridge: how it is reached, what it reads, and what `init` brings. */
import { describe, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { maxLineBytes } from "#protocol/bridge/lines.ts";
import { eventually } from "#test/shell/processes.ts";
import { describeCoreEnd, expectAnswers } from "./bridge-sdk-core.ts";

describeCoreEnd((cores) => {
  describe("1: listening", () => {
    test("the socket is for its user alone, and an old socket file is replaced", async () => {
      const directory = mkdtempSync(join(tmpdir(), "vmapp-core-"));
      mkdirSync(join(directory, "run"));
      writeFileSync(join(directory, "run", "app.sock"), "left behind");
      const core = await cores.start({}, directory);
      expect(statSync(core.socketPath).mode & 0o777).toBe(0o600);
      const host = await core.connect();
      await host.start();
      await expectAnswers(host);
    });

    test.each([
      ["too long for a socket", "x".repeat(120), "at most 107 bytes"],
      ["a directory", "", "cannot listen on"],
    ])("a path that is %s ends the app with the reason", async (_, name, reason) => {
      const directory = mkdtempSync(join(tmpdir(), "vmapp-core-"));
      const run = cores.run({ VMAPP_SOCKET: join(directory, name) });
      expect(await run.ended).toBe(1);
      expect(run.log()).toMatch(/^vmapp-sdk: cannot listen on /);
      expect(run.log()).toContain(reason);
      rmSync(directory, { recursive: true });
    });

    test("a newer connection replaces the older, whose pending invokes are dropped", async () => {
      const { core, host: older } = await cores.startReady();
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
      const { host } = await cores.startReady();
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
      const { core, host } = await cores.startReady();
      host.raw(`${line}\n`);
      await expectAnswers(host);
      const told = /vmapp-sdk: (message of unknown type|line dropped|reply to request 77 dropped)/;
      await eventually("the line in the log", () => told.test(core.log()));
    });

    test("a line of 16 MiB is read, and one over the limit ends the connection, not the app", async () => {
      const { core, host } = await cores.startReady({ CORE_STAYS: "1" });
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
      const core = await cores.start();
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
      const { host } = await cores.startReady({ CORE_WINDOW: "1" });
      await host.next(({ t }) => t === "request");
      expect(host.lines.slice(0, 2)).toEqual([
        '{"t":"ready"}',
        '{"t":"request","id":1,"op":"window.create","params":{"entry":"index.html","width":980,"height":660,"title":"Core"}}',
      ]);
    });
  });
});

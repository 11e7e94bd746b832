/** The core end of the bridge: requests and their replies, invokes, sends and pushes. */
import { describe, expect, test } from "bun:test";
import { maxLineBytes } from "#protocol/bridge/lines.ts";
import { eventually } from "#test/shell/processes.ts";
import { describeCoreEnd, expectAnswers } from "./bridge-sdk-core.ts";

describeCoreEnd((cores) => {
  describe("4: requests", () => {
    test("replies are matched by id, in whatever order they come", async () => {
      const { host } = await cores.startReady();
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
      const { core, host } = await cores.startReady();
      host.send({ t: "invoke", id: 1, win: 1, channel: "clipboard", args: [] });
      const { id } = await host.next(({ op }) => op === "clipboard.read");
      host.send({ t: "reply", id, result: { text: "one" } });
      host.send({ t: "reply", id, result: { text: "two" } });
      expect(await host.next(({ t }) => t === "result")).toMatchObject({ result: "one" });
      await expectAnswers(host);
      await eventually("the line in the log", () => core.log().includes(`reply to request ${id} dropped`));
    });

    test("a refusal reaches the caller with its message and code", async () => {
      const { host } = await cores.startReady();
      host.send({ t: "invoke", id: 1, win: 1, channel: "denied", args: [] });
      const { id } = await host.next(({ op }) => op === "dialog.message");
      host.send({ t: "reply", id, error: { message: "not allowed", code: "denied" } });
      expect(await host.next(({ t }) => t === "result")).toMatchObject({
        id: 1,
        error: { message: "dialog.message: not allowed", code: "denied" },
      });
    });

    test("pending requests fail when the host goes away", async () => {
      const { core, host } = await cores.startReady({ CORE_STAYS: "1" });
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
      const { host } = await cores.startReady();
      host.send({ t: "invoke", id: 1, win: 1, channel: "slow", args: [300] });
      host.send({ t: "invoke", id: 2, win: 1, channel: "slow", args: [1] });
      await host.next(({ t, id }) => t === "result" && id === 1);
      expect(host.messages.filter(({ t }) => t === "result").map(({ id }) => id)).toEqual([2, 1]);
    });

    test("a handler may itself wait for a reply", async () => {
      const { host } = await cores.startReady();
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
      const { host } = await cores.startReady();
      expect(await host.invoke(1, "throw")).toEqual({
        t: "result",
        id: 1,
        error: { message: "the handler failed", code: "E_TEST" },
      });
      expect(await host.invoke(2, "throw-text")).toMatchObject({ error: { message: "just text" } });
      await expectAnswers(host);
    });

    test("whatever else a handler throws is an error of that call too", async () => {
      const { host } = await cores.startReady();
      expect(await host.invoke(1, "throw-shaped")).toMatchObject({
        error: { message: "shaped like an error", code: "E_SHAPE" },
      });
      expect(await host.invoke(2, "throw-bare")).toMatchObject({ error: { message: expect.any(String) } });
      expect(await host.invoke(3, "throw-no-message")).toMatchObject({ error: { message: expect.any(String) } });
      await expectAnswers(host);
    });

    test("a channel without a handler is an error that names it", async () => {
      const { host } = await cores.startReady();
      expect(await host.invoke(1, "nowhere")).toMatchObject({ error: { message: 'no handler for channel "nowhere"' } });
      await expectAnswers(host);
    });

    test.each(["undefined", "cycle", "bigint"])(
      "a result that JSON cannot carry (%s) is an error on that call",
      async (channel) => {
        const { host } = await cores.startReady();
        expect(await host.invoke(1, channel)).toMatchObject({ error: { code: "unencodable" } });
        await expectAnswers(host);
      },
    );

    test("a result over 16 MiB is an error on that call, one just below it arrives", async () => {
      const { host } = await cores.startReady();
      expect(await host.invoke(1, "blob", maxLineBytes)).toMatchObject({ error: { code: "too_large" } });
      const around = '{"t":"result","id":2,"result":""}'.length;
      expect(((await host.invoke(2, "blob", maxLineBytes - around)).result as string).length).toBe(
        maxLineBytes - around,
      );
      expect(await host.invoke(3, "blob", maxLineBytes - around + 1)).toMatchObject({ error: { code: "too_large" } });
      await expectAnswers(host);
    });

    test("an invoke that can be read no further than its id is answered with an error", async () => {
      const { host } = await cores.startReady();
      host.raw('{"t":"invoke","id":5,"win":1,"channel":7,"args":[]}\n');
      expect(await host.next(({ id }) => id === 5)).toMatchObject({ error: { code: "bad_message" } });
      await expectAnswers(host);
    });

    test("exactly one result comes for an id that is used twice at once", async () => {
      const { host } = await cores.startReady();
      host.send({ t: "invoke", id: 1, win: 1, channel: "slow", args: [100] });
      host.send({ t: "invoke", id: 1, win: 1, channel: "slow", args: [50] });
      await new Promise((resolve) => setTimeout(resolve, 300));
      expect(host.messages.filter(({ id }) => id === 1)).toHaveLength(1);
      await expectAnswers(host);
    });
  });

  describe("6 and 7: sends and pushes", () => {
    test("a send reaches its listener and is not answered; the listener pushes to the window it came from", async () => {
      const { host } = await cores.startReady();
      host.send({ t: "send", win: 4, channel: "note", args: ["hi"] });
      expect(await host.next(({ t }) => t === "emit")).toEqual({ t: "emit", win: 4, channel: "noted", args: ["hi"] });
      expect(host.messages.map(({ t }) => t)).toEqual(["ready", "emit"]);
    });

    test("a listener that throws costs nothing but its own message", async () => {
      const { core, host } = await cores.startReady();
      host.send({ t: "send", win: 1, channel: "broken", args: [] });
      await expectAnswers(host);
      await eventually("the line in the log", () => core.log().includes("the listener failed"));
    });

    test("a push to every window has no window", async () => {
      const { host } = await cores.startReady();
      host.send({ t: "send", win: 1, channel: "to-all", args: ["x"] });
      expect(await host.next(({ t }) => t === "emit")).toEqual({ t: "emit", win: null, channel: "all", args: ["x"] });
    });

    test("20 000 pushes arrive in order", async () => {
      const { host } = await cores.startReady();
      await host.invoke(1, "burst", 20_000);
      const ticks = host.messages.filter(({ t }) => t === "emit").map(({ args }) => (args as number[])[0]);
      expect(ticks).toEqual(Array.from({ length: 20_000 }, (_, index) => index));
    });
  });
});

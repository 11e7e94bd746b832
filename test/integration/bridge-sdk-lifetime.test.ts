/** The core end of the bridge: its windows, and how it ends. */
import { describe, expect, test } from "bun:test";
import { existsSync, mkdtempSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describeCoreEnd, expectAnswers } from "./bridge-sdk-core.ts";

describeCoreEnd((cores) => {
  describe("8: windows", () => {
    async function startWithWindow(env: Record<string, string> = {}) {
      const { core, host } = await cores.startReady({ CORE_WINDOW: "1", ...env });
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

    test("the app quits after its last window also when a listener of closed fails", async () => {
      const { core, host } = await startWithWindow({ CORE_CLOSED_FAILS: "1" });
      host.send({ t: "window", win: 3, event: "closed", data: {} });
      const { id } = await host.next(({ op }) => op === "app.quit");
      host.send({ t: "reply", id, result: null });
      expect(await core.ended).toBe(0);
    });

    test("a window that is closed and titled while the host still opens it is so once it is open", async () => {
      const { host } = await startWithWindow();
      await host.invoke(1, "window", "load", "title", "close");
      const { id } = await host.next(({ op }) => op === "window.create");
      host.send({ t: "reply", id, result: { win: 4 } });
      expect(await host.next(({ op }) => op === "window.setTitle")).toMatchObject({
        params: { win: 4, title: "Second" },
      });
      expect(await host.next(({ op }) => op === "window.close")).toMatchObject({ params: { win: 4 } });
      await expectAnswers(host);
    });

    test("the last window closed before it had a page: the app quits", async () => {
      const { core, host } = await cores.startReady();
      await host.invoke(1, "window", "close");
      const { id } = await host.next(({ op }) => op === "app.quit");
      host.send({ t: "reply", id, result: null });
      expect(await core.ended).toBe(0);
    });

    test("a window that is closed while there is no host is closed, and not opened for the next one", async () => {
      const { core, host } = await startWithWindow({ CORE_STAYS: "1" });
      host.send({ t: "send", win: 3, channel: "close-when-alone", args: [] });
      await expectAnswers(host);
      host.close();
      expect(await core.ended).toBe(0);
    });

    test("another page takes the place of the first, whose window is closed", async () => {
      const { host } = await startWithWindow();
      host.send({ t: "invoke", id: 1, win: 3, channel: "navigate", args: [] });
      const { id, params } = await host.next(({ op }) => op === "window.create");
      expect(params).toMatchObject({ entry: "second.html" });
      host.send({ t: "reply", id, result: { win: 4 } });
      expect(await host.next(({ op }) => op === "window.close")).toMatchObject({ params: { win: 3 } });
      expect(await host.next(({ t }) => t === "result")).toMatchObject({ id: 1, result: 4 });
      host.send({ t: "window", win: 3, event: "closed", data: {} });
      host.send({ t: "window", win: 4, event: "resize", data: 1 });
      expect(await host.next(({ t }) => t === "emit")).toMatchObject({ win: 4, channel: "resized" });
      await expectAnswers(host);
    });

    test("a host that says init once more is answered, and nothing is asked of it twice", async () => {
      const { host } = await cores.startReady({ CORE_WINDOW: "1" });
      const { id } = await host.next(({ op }) => op === "window.create");
      await host.start({ folders: { notes: "/host/f-notes" } });
      expect(await host.invoke(1, "state")).toMatchObject({ result: { folders: { notes: "/host/f-notes" } } });
      host.send({ t: "reply", id, result: { win: 3 } });
      await expectAnswers(host);
      expect(host.messages.filter(({ t }) => t === "request")).toHaveLength(1);
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
      const core = await cores.start({ CORE_SAVE_PATH: join(directory, "saved") }, directory);
      const host = await core.connect();
      await host.start();
      host.send({ t: "before-quit" });
      expect(await core.ended).toBe(0);
      expect(readFileSync(join(directory, "saved"), "utf8")).toBe("saved");
    });

    test("at the host's end the app quits by default, after it has saved", async () => {
      const directory = mkdtempSync(join(tmpdir(), "vmapp-core-"));
      const core = await cores.start({ CORE_SAVE_PATH: join(directory, "saved") }, directory);
      const host = await core.connect();
      await host.start();
      host.close();
      expect(await core.ended).toBe(0);
      expect(existsSync(join(directory, "saved"))).toBe(true);
    });

    test("an app may stay when the host goes, and serves the next one", async () => {
      const { core, host } = await cores.startReady({ CORE_STAYS: "1" });
      host.close();
      const next = await core.connect();
      await next.start();
      await expectAnswers(next);
    });

    test("an app that puts quitting off once, and then quits, ends", async () => {
      const { core, host } = await cores.startReady({ CORE_QUITS_LATER: "1" });
      host.send({ t: "before-quit" });
      const { id } = await host.next(({ op }) => op === "app.quit");
      host.send({ t: "reply", id, result: null });
      expect(await core.ended).toBe(0);
    });

    test("a start-up that fails ends the app with its reason, instead of leaving the host to wait", async () => {
      const core = await cores.start({ CORE_START_FAILS: "1" });
      const host = await core.connect();
      host.send({ t: "init", app: {}, platform: {}, folders: {}, data: "/data" });
      expect(await core.ended).toBe(1);
      expect(core.log()).toContain("the start-up failed");
    });

    test("app.quit is told to the host before the app ends", async () => {
      const { core, host } = await cores.startReady();
      await host.invoke(1, "quit");
      const { id } = await host.next(({ op }) => op === "app.quit");
      host.send({ t: "reply", id, result: null });
      expect(await core.ended).toBe(0);
    });
  });
});

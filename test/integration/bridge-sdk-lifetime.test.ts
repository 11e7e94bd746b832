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

    test("app.quit is told to the host before the app ends", async () => {
      const { core, host } = await cores.startReady();
      await host.invoke(1, "quit");
      const { id } = await host.next(({ op }) => op === "app.quit");
      host.send({ t: "reply", id, result: null });
      expect(await core.ended).toBe(0);
    });
  });
});

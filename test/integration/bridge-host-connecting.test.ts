/** The host end of the bridge: how it finds the core, finds it again, and ends. */
import { afterEach, describe, expect, test } from "bun:test";
import type { HostLines } from "./bridge-core-process.ts";
import { waitUntil } from "./bridge-forwarder.ts";
import { expectAnswers, failure, HostEnds } from "./bridge-host-end.ts";

const host = new HostEnds();
afterEach(() => host.stop());

describe("connecting", () => {
  test("the host end waits for the guest, and connects once it is there", async () => {
    const core = host.absentCore();
    const opening = host.open(core);
    await new Promise((resolve) => setTimeout(resolve, 400));
    await core.listen((connection) => connection.raw('{"t":"ready"}\n'));
    expect((await opening).state).toBe("ready");
  });

  test("a core that never sends ready fails the open with a reason, and one that is not there too", async () => {
    const silent = await host.newCore();
    expect(await failure(host.open(silent, { timeoutMs: 300 }))).toMatchObject({
      code: "not_ready",
      message: "the app was not ready within 0.3 s",
    });
    const absent = host.absentCore();
    const error = await failure(host.open(absent, { timeoutMs: 300 }));
    expect(error.message).toContain("the app was not ready within 0.3 s: cannot connect to port 1024");
  });

  test("after a loss it connects again, later each time, says init again, and drops the windows", async () => {
    const closedWindows: number[] = [];
    const { session, core, server } = await host.ready({
      onSession: (s) => s.on("window-closed", (win) => closedWindows.push(win)),
    });
    core.send({ t: "request", id: 1, op: "window.create", params: { entry: "a.html" } });
    await core.next(({ t }) => t === "reply");
    const lostAt = Date.now();
    core.close();
    await waitUntil(() => session.state === "ready" && server.connections.length === 2, "the first reconnect");
    expect(Date.now() - lostAt).toBeGreaterThan(200);
    expect(closedWindows).toEqual([1]);
    const second = server.connections[1] as HostLines;
    await second.next(({ t }) => t === "init");
    const lostAgainAt = Date.now();
    second.close();
    await waitUntil(() => session.state === "ready" && server.connections.length === 3, "the second reconnect");
    expect(Date.now() - lostAgainAt).toBeGreaterThan(450);
    await expectAnswers(session, server.connections[2] as HostLines);
  });

  test("a session that was closed does not connect again", async () => {
    const { session, core, server } = await host.ready();
    const call = failure(session.invoke("a"));
    await core.next(({ channel }) => channel === "a");
    await session.close();
    expect(await call).toMatchObject({ code: "closed" });
    await new Promise((resolve) => setTimeout(resolve, 600));
    expect(server.connections).toHaveLength(1);
    expect(await failure(session.invoke("b"))).toMatchObject({ code: "closed" });
  });

  test("a session closes also over a core that reads nothing", async () => {
    const { session, core } = await host.ready();
    core.socket.pause();
    const call = failure(session.invoke("a", "x".repeat(8 * 1024 * 1024)));
    await session.close();
    expect(session.state).toBe("closed");
    expect(await call).toMatchObject({ code: "closed" });
  });

  test("before-quit: a core that ends by itself is not waited for longer", async () => {
    const { session, core } = await host.ready();
    const quitting = session.quit();
    await core.next(({ t }) => t === "before-quit");
    core.close();
    expect(await quitting).toEqual({ ended: true });
    expect(session.state).toBe("closed");
  });

  test("before-quit: a core that answers it with app.quit has quit once", async () => {
    let quits = 0;
    const { session, core } = await host.ready({
      onSession: (opened) =>
        opened.on("quit", () => {
          quits += 1;
        }),
    });
    const quitting = session.quit();
    await core.next(({ t }) => t === "before-quit");
    core.send({ t: "request", id: 1, op: "app.quit", params: {} });
    await core.next(({ t }) => t === "reply");
    core.close();
    expect(await quitting).toEqual({ ended: true });
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect(quits).toBe(1);
  });

  test("before-quit: a core that goes on has 3 s", async () => {
    const { session, core } = await host.ready();
    const started = Date.now();
    expect(await session.quit()).toEqual({ ended: false });
    expect(Date.now() - started).toBeGreaterThan(2900);
    await core.ended;
  });
});

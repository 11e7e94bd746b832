/** The host end of the bridge: what a core asks of its host. */
import { afterEach, describe, expect, test } from "bun:test";
import type { InspectedMessage } from "#host/clients/bridge/inspector.ts";
import type { HostLines, Message } from "./bridge-core-process.ts";
import { waitUntil } from "./bridge-forwarder.ts";
import { expectAnswers, HostEnds } from "./bridge-host-end.ts";

const host = new HostEnds();
afterEach(() => host.stop());

describe("operations", () => {
  async function request(core: HostLines, id: number, op: string, params: unknown = {}): Promise<Message> {
    core.send({ t: "request", id, op, params });
    return core.next((message) => message.t === "reply" && message.id === id, `the reply to ${op}`);
  }

  test("an unknown one is an error with its code", async () => {
    const { session, core } = await host.ready();
    expect(await request(core, 1, "toString")).toMatchObject({ error: { code: "unknown_op" } });
    expect(await request(core, 2, "files.delete")).toMatchObject({ error: { code: "unknown_op" } });
    await expectAnswers(session, core);
  });

  test("one that is not permitted is denied and shown so in the inspector", async () => {
    const seen: InspectedMessage[] = [];
    const { session, core } = await host.ready({
      permissions: ["window.create"],
      onSession: (s) => s.on("message", (message) => seen.push(message)),
    });
    expect(await request(core, 1, "clipboard.read")).toMatchObject({ error: { code: "denied" } });
    expect(seen.find(({ t }) => t === "request")).toMatchObject({ refused: "denied" });
    expect(await request(core, 2, "window.create", { entry: "a.html" })).toMatchObject({ result: { win: 1 } });
    await expectAnswers(session, core);
  });

  test.each([
    ["a page outside the app", "window.create", { entry: "../x.html" }],
    ["a page with an absolute path", "window.create", { entry: "/etc/passwd" }],
    ["a page that is a URL", "window.create", { entry: "https://example.org/" }],
    ["no page", "window.create", {}],
    ["a width below zero", "window.create", { entry: "a", width: -1 }],
    ["a URL of a file", "shell.openExternal", { url: "file:///etc/passwd" }],
    ["a URL that is a script", "shell.openExternal", { url: "javascript:alert(1)" }],
    ["text that is no URL", "shell.openExternal", { url: "x" }],
    ["a URL with a line break in its scheme", "shell.openExternal", { url: "ht\ntps://a/" }],
    ["a URL behind a space", "shell.openExternal", { url: " https://a/" }],
    ["params that are no object", "app.quit", 7],
  ])("%s is refused", async (_, op, params) => {
    const { session, core } = await host.ready({ permissions: ["window.create", "shell.openExternal", "app.quit"] });
    expect(await request(core, 1, op, params)).toMatchObject({ error: { code: "bad_params" } });
    await expectAnswers(session, core);
  });

  test("http, https and mailto URLs reach the embedder's function", async () => {
    const opened: string[] = [];
    const { core } = await host.ready({
      permissions: ["shell.openExternal"],
      ops: { "shell.openExternal": ({ url }) => void opened.push(url) },
    });
    const urls = ["http://a/", "https://b/", "mailto:c@d"];
    for (const [index, url] of urls.entries()) {
      expect(await request(core, index, "shell.openExternal", { url })).toMatchObject({ result: null });
    }
    expect(opened).toEqual(urls);
  });

  test("an embedder's function that fails, or answers what JSON cannot carry, is an error of that request", async () => {
    const { session, core } = await host.ready({
      ops: {
        "dialog.open": () => Promise.reject(new Error("no display")),
        "dialog.save": () => ({ path: 1n }),
      },
    });
    expect(await request(core, 1, "dialog.open")).toMatchObject({ error: { message: "no display" } });
    expect(await request(core, 2, "dialog.save")).toMatchObject({ error: { code: "unencodable" } });
    await expectAnswers(session, core);
  });

  test("windows are numbered by the host, and one that is not open cannot be focused", async () => {
    const { session, core } = await host.ready();
    expect(await request(core, 1, "window.create", { entry: "a.html" })).toMatchObject({ result: { win: 1 } });
    expect(await request(core, 2, "window.create", { entry: "b.html" })).toMatchObject({ result: { win: 2 } });
    expect([...session.windows.keys()]).toEqual([1, 2]);
    expect(await request(core, 3, "window.close", { win: 1 })).toMatchObject({ result: null });
    expect(await core.next(({ t }) => t === "window")).toEqual({ t: "window", win: 1, event: "closed", data: {} });
    expect(await request(core, 4, "window.focus", { win: 1 })).toMatchObject({ error: { code: "no_window" } });
    const call = session.invoke("x");
    const { id, win } = await core.next(({ channel }) => channel === "x");
    core.send({ t: "result", id, result: null });
    await call;
    expect(win).toBe(2);
  });

  test("the clipboard is the session's own", async () => {
    const { core } = await host.ready({ permissions: ["clipboard.read", "clipboard.write"] });
    await request(core, 1, "clipboard.write", { text: "copied" });
    expect(await request(core, 2, "clipboard.read")).toMatchObject({ result: { text: "copied" } });
  });

  test("a core that is reached again has its requests answered, also with the id of one that nobody has answered yet", async () => {
    const { session, core, server } = await host.ready({ ops: { "dialog.open": () => new Promise(() => {}) } });
    core.send({ t: "request", id: 1, op: "dialog.open", params: {} });
    await expectAnswers(session, core);
    core.close();
    await waitUntil(() => session.state === "ready" && server.connections.length === 2, "the reconnect");
    const second = server.connections[1] as HostLines;
    expect(await request(second, 1, "window.create", { entry: "a.html" })).toMatchObject({ result: { win: 1 } });
    await expectAnswers(session, second);
  });

  test("a window that opens when its core is gone is not the next core's", async () => {
    let open = () => {};
    const { session, core, server } = await host.ready({
      ops: {
        "window.create": (params, context) =>
          new Promise((resolve, reject) => {
            open = () => {
              try {
                resolve({ win: context.openWindow(params) });
              } catch (error) {
                reject(error);
              }
            };
          }),
      },
    });
    core.send({ t: "request", id: 1, op: "window.create", params: { entry: "a.html" } });
    await expectAnswers(session, core);
    core.close();
    await waitUntil(() => session.state === "ready" && server.connections.length === 2, "the reconnect");
    open();
    expect([...session.windows.keys()]).toEqual([]);
    await expectAnswers(session, server.connections[1] as HostLines);
  });

  test("an embedder's function that throws what has no text is an error of that request", async () => {
    const { session, core } = await host.ready({ ops: { "dialog.open": () => Promise.reject(Object.create(null)) } });
    expect(await request(core, 1, "dialog.open")).toMatchObject({ error: { code: "failed" } });
    await expectAnswers(session, core);
  });

  test("a core that asks for hundreds of things at once is told so, and each request gets one answer", async () => {
    const { session, core } = await host.ready({ ops: { "dialog.open": () => new Promise(() => {}) } });
    for (let id = 1; id <= 300; id += 1) core.send({ t: "request", id, op: "dialog.open", params: {} });
    await core.next(({ id }) => id === 300);
    const replies = core.messages.filter(({ t }) => t === "reply");
    expect(replies).toHaveLength(44);
    for (const { error } of replies) expect(error).toMatchObject({ code: "busy" });
    await expectAnswers(session, core);
  });
});

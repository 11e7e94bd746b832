import { afterEach, describe, expect, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer, type Server, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { BridgeError } from "#host/clients/bridge/error.ts";
import type { InspectedMessage } from "#host/clients/bridge/inspector.ts";
import { type AppOptions, AppSession } from "#host/clients/bridge/session.ts";
import { dial } from "#host/transport/dial.ts";
import { maxLineBytes } from "#protocol/bridge/lines.ts";
import { HostLines, type Message } from "./bridge-core-process.ts";
import { waitUntil } from "./bridge-forwarder.ts";

/** A core made of lines, at the other end of the host end's connections. */
class LineCore {
  readonly directory = mkdtempSync(join(tmpdir(), "vmapp-host-end-"));
  readonly connections: HostLines[] = [];
  #server: Server | undefined;

  async listen(onConnection: (connection: HostLines) => void = () => {}): Promise<this> {
    this.#server = createServer((socket: Socket) => {
      const connection = new HostLines(socket);
      this.connections.push(connection);
      onConnection(connection);
    });
    await new Promise<void>((resolve) => this.#server?.listen(join(this.directory, "1024.sock"), resolve));
    return this;
  }

  stopListening(): void {
    this.#server?.close();
    rmSync(join(this.directory, "1024.sock"), { force: true });
  }

  stop(): void {
    for (const connection of this.connections) connection.close();
    this.stopListening();
    rmSync(this.directory, { recursive: true, force: true });
  }
}

const cores: LineCore[] = [];
const sessions: AppSession[] = [];
afterEach(async () => {
  for (const session of sessions.splice(0)) await session.close();
  for (const core of cores.splice(0)) core.stop();
});

async function newCore(onConnection?: (connection: HostLines) => void): Promise<LineCore> {
  const core = new LineCore();
  cores.push(core);
  return core.listen(onConnection);
}

function open(core: LineCore, options: AppOptions = {}): Promise<AppSession> {
  return AppSession.open(
    (signal) => dial({ target: { kind: "unix", directory: core.directory }, port: 1024, signal }),
    {
      timeoutMs: 4000,
      ...options,
      onSession: (session) => {
        sessions.push(session);
        options.onSession?.(session);
      },
    },
  );
}

/** A session whose core is ready, and the core's end of it. */
async function ready(options: AppOptions = {}): Promise<{ session: AppSession; core: HostLines; server: LineCore }> {
  const server = await newCore((connection) => connection.raw('{"t":"ready"}\n'));
  const session = await open(server, options);
  const core = server.connections[0] as HostLines;
  await core.next(({ t }) => t === "init");
  return { session, core, server };
}

async function expectAnswers(session: AppSession, core: HostLines): Promise<void> {
  const result = session.invoke("still-here");
  const { id } = await core.next(({ channel }) => channel === "still-here");
  core.send({ t: "result", id, result: "yes" });
  expect(await result).toBe("yes");
}

async function failure(promise: Promise<unknown>): Promise<BridgeError> {
  const error = await promise.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  if (!(error instanceof BridgeError)) throw new Error(`no BridgeError but ${String(error)}`);
  return error;
}

describe("the recorded session", () => {
  test("runs message for message against a recorded stream", async () => {
    const server = await newCore();
    const opening = open(server, {
      app: { id: "dev.vmapp.notes", name: "Notes", version: "1.0.0" },
      platform: { os: "linux", arch: "arm64" },
      folders: { notes: "/host/f-notes", export: null },
      data: "/data",
      ops: { "dialog.open": () => ({ canceled: false, paths: ["/host/pick-0/ideas.txt"] }) },
    });
    await waitUntil(() => server.connections.length === 1, "the host end");
    const core = server.connections[0] as HostLines;
    const line = async (count: number) => {
      await waitUntil(() => core.lines.length >= count, `line ${count}`);
      return core.lines[count - 1];
    };
    expect(await line(1)).toBe(
      '{"t":"init","app":{"id":"dev.vmapp.notes","name":"Notes","version":"1.0.0"},"platform":{"os":"linux","arch":"arm64"},"folders":{"notes":"/host/f-notes","export":null},"data":"/data"}',
    );
    core.raw('{"t":"ready"}\n');
    core.raw(
      '{"t":"request","id":1,"op":"window.create","params":{"entry":"index.html","width":980,"height":660,"title":"Notes","devTools":false}}\n',
    );
    expect(await line(2)).toBe('{"t":"reply","id":1,"result":{"win":1}}');
    const session = await opening;
    // The recording begins in the middle of a session: its invoke is the seventh.
    for (let id = 1; id < 7; id += 1) {
      const earlier = session.invoke("earlier");
      await line(2 + id);
      core.raw(`{"t":"result","id":${id},"result":null}\n`);
      await earlier;
    }
    const listed = session.invoke("notes:list");
    expect(await line(9)).toBe('{"t":"invoke","id":7,"win":1,"channel":"notes:list","args":[]}');
    core.raw('{"t":"result","id":7,"result":[{"name":"alpha.md","size":120}]}\n');
    expect(await listed).toEqual([{ name: "alpha.md", size: 120 }]);
    const pushed = new Promise((resolve) => session.once("emit", resolve));
    core.raw('{"t":"emit","win":1,"channel":"notes:changed","args":[["alpha.md"]]}\n');
    expect(await pushed).toEqual({ win: 1, channel: "notes:changed", args: [["alpha.md"]] });
    core.raw('{"t":"request","id":2,"op":"dialog.open","params":{"directory":false,"multiple":false}}\n');
    expect(await line(10)).toBe('{"t":"reply","id":2,"result":{"canceled":false,"paths":["/host/pick-0/ideas.txt"]}}');
    session.closeWindow(1);
    expect(await line(11)).toBe('{"t":"window","win":1,"event":"closed","data":{}}');
    const quit = new Promise<void>((resolve) => session.once("quit", () => resolve()));
    core.raw('{"t":"request","id":3,"op":"app.quit","params":{}}\n');
    expect(await line(12)).toBe('{"t":"reply","id":3,"result":null}');
    core.close();
    await quit;
    expect(session.state).toBe("closed");
  });
});

describe("calls", () => {
  test("results are matched by id, in whatever order they come", async () => {
    const { session, core } = await ready();
    const both = [session.invoke("a"), session.invoke("b")];
    const a = await core.next(({ channel }) => channel === "a");
    const b = await core.next(({ channel }) => channel === "b");
    core.send({ t: "result", id: b.id, result: "of b" });
    core.send({ t: "result", id: a.id, result: "of a" });
    expect(await Promise.all(both)).toEqual(["of a", "of b"]);
  });

  test("an error of the core is thrown with its message and code", async () => {
    const { session, core } = await ready();
    const call = session.invoke("c");
    const { id } = await core.next(({ t }) => t === "invoke");
    core.send({ t: "result", id, error: { message: "no such note", code: "ENOENT" } });
    expect(await failure(call)).toMatchObject({ code: "failed", coreCode: "ENOENT", message: "c: no such note" });
  });

  test("a second result and one for an unknown id are dropped and reported", async () => {
    const problems: string[] = [];
    const { session, core } = await ready({ onSession: (s) => s.on("problem", (text) => problems.push(text)) });
    const call = session.invoke("c");
    const { id } = await core.next(({ t }) => t === "invoke");
    core.send({ t: "result", id, result: 1 });
    core.send({ t: "result", id, result: 2 });
    core.send({ t: "result", id: 4711, result: 3 });
    expect(await call).toBe(1);
    await expectAnswers(session, core);
    expect(problems).toEqual([
      `result of invoke ${id} dropped: nobody waits for it`,
      "result of invoke 4711 dropped: nobody waits for it",
    ]);
  });

  test("arguments that JSON cannot carry fail the call, and nothing is sent", async () => {
    const { session, core } = await ready();
    expect(await failure(session.invoke("c", undefined))).toMatchObject({ code: "unencodable" });
    expect(await failure(session.invoke("c", 1n))).toMatchObject({ code: "unencodable" });
    expect(await failure(session.invoke("c", "x".repeat(maxLineBytes)))).toMatchObject({ code: "too_large" });
    expect(await failure(session.send("c", () => {}))).toMatchObject({ code: "unencodable" });
    await expectAnswers(session, core);
    expect(core.messages.map(({ t }) => t)).toEqual(["init", "invoke"]);
  });

  test("a call may be given up by time or by signal; its late result is dropped", async () => {
    const { session, core } = await ready();
    expect(await failure(session.call({ channel: "slow", timeoutMs: 30 }))).toMatchObject({ code: "timeout" });
    const controller = new AbortController();
    const call = session.call({ channel: "slow", signal: controller.signal });
    controller.abort();
    expect(await failure(call)).toMatchObject({ code: "aborted" });
    core.send({ t: "result", id: 1, result: "late" });
    await expectAnswers(session, core);
  });

  test("pending calls fail at once when the core dies in the middle of them", async () => {
    const { session, core } = await ready();
    const calls = [session.invoke("a"), session.invoke("b")];
    await core.next(({ channel }) => channel === "b");
    core.close();
    for (const call of calls) expect(await failure(call)).toMatchObject({ code: "disconnected" });
    expect(await failure(session.invoke("c"))).toMatchObject({ code: "disconnected" });
  });
});

describe("what the core may send", () => {
  test.each([
    ["an unknown type", '{"t":"stream"}', 'message of unknown type "stream" ignored'],
    ["text that is not JSON", "hello", "line dropped: 5 bytes that are not JSON in UTF-8"],
    ["an array", "[]", "line dropped: a line that is not a JSON object"],
    ["an object without a type", "{}", 'line dropped: an object without a string "t"'],
    ["an emit without a channel", '{"t":"emit","win":1,"args":[]}', 'line dropped: emit: "channel" is not a string'],
    ["a second ready", '{"t":"ready"}', "a second ready was ignored"],
  ])("%s is reported and ignored", async (_, line, problem) => {
    const problems: string[] = [];
    const { session, core } = await ready({ onSession: (s) => s.on("problem", (text) => problems.push(text)) });
    core.raw(`${line}\n\n`);
    await expectAnswers(session, core);
    expect(problems).toEqual([problem]);
  });

  test("a line over 16 MiB ends the connection; pending calls fail, and the core is reached again", async () => {
    const { session, core, server } = await ready();
    const call = session.invoke("a");
    await core.next(({ channel }) => channel === "a");
    core.raw(Buffer.alloc(maxLineBytes + 1, 0x61));
    expect(await failure(call)).toMatchObject({ code: "disconnected" });
    await waitUntil(() => session.state === "ready", "the reconnect");
    await expectAnswers(session, server.connections[1] as HostLines);
  });

  test("a malformed request is answered with an error", async () => {
    const { session, core } = await ready();
    core.raw('{"t":"request","id":3,"op":7}\n');
    expect(await core.next(({ t }) => t === "reply")).toMatchObject({ id: 3, error: { code: "bad_message" } });
    await expectAnswers(session, core);
  });
});

describe("operations", () => {
  async function request(core: HostLines, id: number, op: string, params: unknown = {}): Promise<Message> {
    core.send({ t: "request", id, op, params });
    return core.next((message) => message.t === "reply" && message.id === id, `the reply to ${op}`);
  }

  test("an unknown one is an error with its code", async () => {
    const { session, core } = await ready();
    expect(await request(core, 1, "toString")).toMatchObject({ error: { code: "unknown_op" } });
    expect(await request(core, 2, "files.delete")).toMatchObject({ error: { code: "unknown_op" } });
    await expectAnswers(session, core);
  });

  test("one that is not permitted is denied and shown so in the inspector", async () => {
    const seen: InspectedMessage[] = [];
    const { session, core } = await ready({
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
    ["params that are no object", "app.quit", 7],
  ])("%s is refused", async (_, op, params) => {
    const { session, core } = await ready({ permissions: ["window.create", "shell.openExternal", "app.quit"] });
    expect(await request(core, 1, op, params)).toMatchObject({ error: { code: "bad_params" } });
    await expectAnswers(session, core);
  });

  test("http, https and mailto URLs reach the embedder's function", async () => {
    const opened: string[] = [];
    const { core } = await ready({
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
    const { session, core } = await ready({
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
    const { session, core } = await ready();
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
    const { core } = await ready({ permissions: ["clipboard.read", "clipboard.write"] });
    await request(core, 1, "clipboard.write", { text: "copied" });
    expect(await request(core, 2, "clipboard.read")).toMatchObject({ result: { text: "copied" } });
  });

  test("a core that asks for hundreds of things at once is told so, and each request gets one answer", async () => {
    const { session, core } = await ready({ ops: { "dialog.open": () => new Promise(() => {}) } });
    for (let id = 1; id <= 300; id += 1) core.send({ t: "request", id, op: "dialog.open", params: {} });
    await core.next(({ id }) => id === 300);
    const replies = core.messages.filter(({ t }) => t === "reply");
    expect(replies).toHaveLength(44);
    for (const { error } of replies) expect(error).toMatchObject({ code: "busy" });
    await expectAnswers(session, core);
  });
});

describe("connecting", () => {
  test("the host end waits for the guest, and connects once it is there", async () => {
    const core = new LineCore();
    cores.push(core);
    const opening = open(core);
    await new Promise((resolve) => setTimeout(resolve, 400));
    await core.listen((connection) => connection.raw('{"t":"ready"}\n'));
    expect((await opening).state).toBe("ready");
  });

  test("a core that never sends ready fails the open with a reason, and one that is not there too", async () => {
    const silent = await newCore();
    expect(await failure(open(silent, { timeoutMs: 300 }))).toMatchObject({
      code: "not_ready",
      message: "the app was not ready within 0.3 s",
    });
    const absent = new LineCore();
    cores.push(absent);
    const error = await failure(open(absent, { timeoutMs: 300 }));
    expect(error.message).toContain("the app was not ready within 0.3 s: cannot connect to port 1024");
  });

  test("after a loss it connects again, later each time, says init again, and drops the windows", async () => {
    const closedWindows: number[] = [];
    const { session, core, server } = await ready({
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
    const { session, core, server } = await ready();
    const call = failure(session.invoke("a"));
    await core.next(({ channel }) => channel === "a");
    await session.close();
    expect(await call).toMatchObject({ code: "closed" });
    await new Promise((resolve) => setTimeout(resolve, 600));
    expect(server.connections).toHaveLength(1);
    expect(await failure(session.invoke("b"))).toMatchObject({ code: "closed" });
  });

  test("before-quit: a core that ends by itself is not waited for longer", async () => {
    const { session, core } = await ready();
    const quitting = session.quit();
    await core.next(({ t }) => t === "before-quit");
    core.close();
    expect(await quitting).toEqual({ ended: true });
    expect(session.state).toBe("closed");
  });

  test("before-quit: a core that goes on has 3 s", async () => {
    const { session, core } = await ready();
    const started = Date.now();
    expect(await session.quit()).toEqual({ ended: false });
    expect(Date.now() - started).toBeGreaterThan(2900);
    await core.ended;
  });
});

describe("the inspector", () => {
  test("each message is shown with direction, size, latency of pairs, and a preview without secrets", async () => {
    const seen: InspectedMessage[] = [];
    const { session, core } = await ready({ onSession: (s) => s.on("message", (message) => seen.push(message)) });
    const call = session.invoke("api-keys:get", "openai");
    const { id } = await core.next(({ t }) => t === "invoke");
    await new Promise((resolve) => setTimeout(resolve, 30));
    core.send({ t: "result", id, result: "the very key" });
    await call;
    expect(seen.map(({ t, direction }) => `${direction} ${t}`)).toEqual([
      "to-core init",
      "from-core ready",
      "to-core invoke",
      "from-core result",
    ]);
    const [init, readyMessage, invoke, result] = seen as [
      InspectedMessage,
      InspectedMessage,
      InspectedMessage,
      InspectedMessage,
    ];
    expect(readyMessage.latencyMs).toBeGreaterThanOrEqual(0);
    expect(init.bytes).toBe(core.lines[0]?.length as number);
    expect(invoke.preview).toBe('{"t":"invoke","id":1,"win":0,"channel":"api-keys:get","args":"[hidden]"}');
    expect(invoke.latencyMs).toBeUndefined();
    expect(result.preview).toBe('{"t":"result","id":1,"result":"[hidden]"}');
    expect(result.bytes).toBe('{"t":"result","id":1,"result":"the very key"}'.length);
    expect(result.latencyMs).toBeGreaterThan(25);
    expect(result.atMs).toBeGreaterThan(invoke.atMs);
  });
});

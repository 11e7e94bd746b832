/** The host end of the bridge: the messages of a connection that stands, in both directions. */
import { afterEach, describe, expect, test } from "bun:test";
import type { InspectedMessage } from "#host/clients/bridge/inspector.ts";
import { maxLineBytes } from "#protocol/bridge/lines.ts";
import type { HostLines } from "./bridge-core-process.ts";
import { waitUntil } from "./bridge-forwarder.ts";
import { expectAnswers, failure, HostEnds } from "./bridge-host-end.ts";

const host = new HostEnds();
afterEach(() => host.stop());

describe("the recorded session", () => {
  test("runs message for message against a recorded stream", async () => {
    const server = await host.newCore();
    const opening = host.open(server, {
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
    const { session, core } = await host.ready();
    const both = [session.invoke("a"), session.invoke("b")];
    const a = await core.next(({ channel }) => channel === "a");
    const b = await core.next(({ channel }) => channel === "b");
    core.send({ t: "result", id: b.id, result: "of b" });
    core.send({ t: "result", id: a.id, result: "of a" });
    expect(await Promise.all(both)).toEqual(["of a", "of b"]);
  });

  test("an error of the core is thrown with its message and code", async () => {
    const { session, core } = await host.ready();
    const call = session.invoke("c");
    const { id } = await core.next(({ t }) => t === "invoke");
    core.send({ t: "result", id, error: { message: "no such note", code: "ENOENT" } });
    expect(await failure(call)).toMatchObject({ code: "failed", coreCode: "ENOENT", message: "c: no such note" });
  });

  test("a second result and one for an unknown id are dropped and reported", async () => {
    const problems: string[] = [];
    const { session, core } = await host.ready({ onSession: (s) => s.on("problem", (text) => problems.push(text)) });
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
    const { session, core } = await host.ready();
    expect(await failure(session.invoke("c", undefined))).toMatchObject({ code: "unencodable" });
    expect(await failure(session.invoke("c", 1n))).toMatchObject({ code: "unencodable" });
    expect(await failure(session.invoke("c", "x".repeat(maxLineBytes)))).toMatchObject({ code: "too_large" });
    expect(await failure(session.send("c", () => {}))).toMatchObject({ code: "unencodable" });
    await expectAnswers(session, core);
    expect(core.messages.map(({ t }) => t)).toEqual(["init", "invoke"]);
  });

  test("calls that together exceed any buffer all get their results from a core that reads", async () => {
    const { session, core } = await host.ready();
    const calls = Array.from({ length: 6 }, () => session.invoke("large", "x".repeat(15 * 1024 * 1024)));
    for (const _ of calls) {
      const { id } = await core.next(({ channel }) => channel === "large", "a large call", 20_000);
      core.send({ t: "result", id, result: id });
    }
    expect(await Promise.all(calls)).toEqual([1, 2, 3, 4, 5, 6]);
  });

  test("a channel that is no text fails the call", async () => {
    const { session, core } = await host.ready();
    expect(await failure(session.invoke(undefined as unknown as string))).toMatchObject({ code: "unencodable" });
    await expectAnswers(session, core);
  });

  test("a limit of infinity is none", async () => {
    const { session, core } = await host.ready({ timeoutMs: Number.POSITIVE_INFINITY });
    const call = session.call({ channel: "a", timeoutMs: Number.POSITIVE_INFINITY });
    const { id } = await core.next(({ t }) => t === "invoke");
    await new Promise((resolve) => setTimeout(resolve, 50));
    core.send({ t: "result", id, result: "in time" });
    expect(await call).toBe("in time");
  });

  test("a call may be given up by time or by signal; its late result is dropped", async () => {
    const { session, core } = await host.ready();
    expect(await failure(session.call({ channel: "slow", timeoutMs: 30 }))).toMatchObject({ code: "timeout" });
    const controller = new AbortController();
    const call = session.call({ channel: "slow", signal: controller.signal });
    controller.abort();
    expect(await failure(call)).toMatchObject({ code: "aborted" });
    core.send({ t: "result", id: 1, result: "late" });
    await expectAnswers(session, core);
  });

  test("pending calls fail at once when the core dies in the middle of them", async () => {
    const { session, core } = await host.ready();
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
    const { session, core } = await host.ready({ onSession: (s) => s.on("problem", (text) => problems.push(text)) });
    core.raw(`${line}\n\n`);
    await expectAnswers(session, core);
    expect(problems).toEqual([problem]);
  });

  test("a line over 16 MiB ends the connection; pending calls fail, and the core is reached again", async () => {
    const { session, core, server } = await host.ready();
    const call = session.invoke("a");
    await core.next(({ channel }) => channel === "a");
    core.raw(Buffer.alloc(maxLineBytes + 1, 0x61));
    expect(await failure(call)).toMatchObject({ code: "disconnected" });
    await waitUntil(() => session.state === "ready", "the reconnect");
    await expectAnswers(session, server.connections[1] as HostLines);
  });

  test("a malformed request is answered with an error", async () => {
    const { session, core } = await host.ready();
    core.raw('{"t":"request","id":3,"op":7}\n');
    expect(await core.next(({ t }) => t === "reply")).toMatchObject({ id: 3, error: { code: "bad_message" } });
    await expectAnswers(session, core);
  });
});

describe("the inspector", () => {
  test("each message is shown with direction, size, latency of pairs, and a preview without secrets", async () => {
    const seen: InspectedMessage[] = [];
    const { session, core } = await host.ready({ onSession: (s) => s.on("message", (message) => seen.push(message)) });
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

  test("a result of a secret channel is hidden also from who began to watch after the call, and when it comes twice", async () => {
    const { session, core } = await host.ready();
    const call = session.invoke("api-keys:get");
    const { id } = await core.next(({ t }) => t === "invoke");
    const seen: InspectedMessage[] = [];
    session.on("message", (message) => seen.push(message));
    core.send({ t: "result", id, result: "the very key" });
    core.send({ t: "result", id, result: "the very key" });
    await call;
    await expectAnswers(session, core);
    expect(seen.slice(0, 2).map(({ preview }) => preview)).toEqual([
      '{"t":"result","id":1,"result":"[hidden]"}',
      '{"t":"result","id":1,"result":"[hidden]"}',
    ]);
    expect(seen.at(-1)?.preview).toBe('{"t":"result","id":2,"result":"yes"}');
  });
});

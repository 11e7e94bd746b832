import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import type { InspectedMessage } from "#host/clients/bridge/inspector.ts";
import { AppSession } from "#host/clients/bridge/session.ts";
import { JoinedSession, shareSession } from "#host/clients/bridge/shared-session.ts";
import { dial } from "#host/transport/dial.ts";
import { type Forwarder, startForwarder, waitUntil } from "./bridge-forwarder.ts";

const cli = resolve(import.meta.dir, "../../host-client/cli/main.ts");
const core = resolve(import.meta.dir, "bridge-core.ts");

let forwarder: Forwarder;
let target: string;
let stopCore: () => Promise<void>;
beforeAll(async () => {
  forwarder = await startForwarder();
  target = `unix:${dirname(forwarder.hostPath)}`;
  const child = spawn(process.execPath, [core], {
    env: { ...process.env, VMAPP_SOCKET: forwarder.appPath, CORE_STAYS: "1", CORE_WINDOW: "1" },
    stdio: ["ignore", "inherit", "ignore"],
  });
  const ended = new Promise((resolveEnd) => child.once("exit", resolveEnd));
  stopCore = async () => {
    child.kill("SIGKILL");
    await ended;
  };
});
afterAll(async () => {
  await stopCore();
  await forwarder.stop();
});

const cleanups: (() => Promise<void> | void)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0)) await cleanup();
});

interface Running {
  stdout(): string;
  stderr(): string;
  interrupt(): void;
  readonly ended: Promise<number | null>;
}

function vmapp(...args: string[]): Running {
  const child = spawn(process.execPath, [cli, ...args], { stdio: ["ignore", "pipe", "pipe"] });
  const text = { stdout: "", stderr: "" };
  child.stdout.on("data", (chunk: Buffer) => {
    text.stdout += chunk.toString();
  });
  child.stderr.on("data", (chunk: Buffer) => {
    text.stderr += chunk.toString();
  });
  const ended = new Promise<number | null>((resolveEnd) => child.once("close", resolveEnd));
  cleanups.push(async () => {
    child.kill("SIGKILL");
    await ended;
  });
  return {
    stdout: () => text.stdout,
    stderr: () => text.stderr,
    interrupt: () => child.kill("SIGINT"),
    ended,
  };
}

describe("vmapp app", () => {
  test("invoke prints the result as JSON, with arguments given as JSON", async () => {
    const run = vmapp("app", "--json", target, "invoke", "echo", '"text"', '{"a":[1,null]}');
    expect(await run.ended).toBe(0);
    expect(run.stdout()).toBe('["text",{"a":[1,null]}]\n');
  });

  test("folders and the data directory reach the app", async () => {
    const run = vmapp(
      "app",
      "--json",
      "--folder",
      "notes=/x",
      "--folder",
      "other=",
      "--data",
      "/d",
      target,
      "invoke",
      "state",
    );
    expect(await run.ended).toBe(0);
    expect(JSON.parse(run.stdout())).toMatchObject({ folders: { notes: "/x", other: null }, dataDir: "/d" });
  });

  test.each([
    ["a handler's error", ["invoke", "throw"], "the handler failed"],
    ["a channel without a handler", ["invoke", "nowhere"], 'no handler for channel "nowhere"'],
    ["an argument that is not JSON", ["invoke", "echo", "text"], '"text" is not JSON'],
    ["a missing channel", ["invoke"], "invoke wants a channel"],
    ["an unknown action", ["dance"], '"dance" is none of watch, invoke, quit'],
  ])("%s is told, and ends with 255", async (_, words, reason) => {
    const run = vmapp("app", target, ...words);
    expect(await run.ended).toBe(255);
    expect(run.stderr()).toContain(reason);
    const again = vmapp("app", "--json", target, "invoke", "echo", "1");
    expect(await again.ended).toBe(0);
  });

  test("an app that is not there is told within the time given", async () => {
    const empty = mkdtempSync(join(tmpdir(), "vmapp-no-app-"));
    cleanups.push(() => rmSync(empty, { recursive: true }));
    const run = vmapp("app", "--timeout", "0.5", `unix:${empty}`, "invoke", "echo");
    expect(await run.ended).toBe(255);
    expect(run.stderr()).toContain("the app was not ready within 0.5 s");
  });

  test("watch shows each message with direction, size, latency and preview, until it is interrupted", async () => {
    const run = vmapp("app", target, "watch");
    await waitUntil(() => run.stdout().includes("reply"), "the window's reply");
    run.interrupt();
    await run.ended;
    const lines = run.stdout().trimEnd().split("\n");
    expect(lines[0]).toMatch(/^ +\d\.\d{3} > init +\d+ B +\{"t":"init","app":/);
    expect(lines[1]).toMatch(/^ +\d\.\d{3} < ready +13 B +[\d.]+ ms \{"t":"ready"\}$/);
    expect(lines[2]).toMatch(/^ +\d\.\d{3} < request +\d+ B +\{"t":"request","id":\d+,"op":"window.create"/);
    expect(lines[3]).toMatch(/^ +\d\.\d{3} > reply +\d+ B +[\d.]+ ms \{"t":"reply"/);
  });

  test("watch --json prints an object a message", async () => {
    const run = vmapp("app", "--json", target, "watch");
    await waitUntil(() => run.stdout().includes("ready"), "ready");
    run.interrupt();
    await run.ended;
    expect(JSON.parse(run.stdout().split("\n")[1] ?? "")).toMatchObject({
      direction: "from-core",
      t: "ready",
      bytes: 13,
    });
  });
});

describe("a session that is shared", () => {
  async function shared(): Promise<{ session: AppSession; path: string }> {
    const directory = mkdtempSync(join(tmpdir(), "vmapp-shared-"));
    cleanups.push(() => rmSync(directory, { recursive: true }));
    const session = await AppSession.open((signal) =>
      dial({ target: { kind: "unix", directory: dirname(forwarder.hostPath) }, port: 1024, signal }),
    );
    cleanups.push(() => session.close());
    const path = join(directory, "app.sock");
    cleanups.push(shareSession(session, path));
    await waitUntil(() => existsSync(path), "the shared socket");
    return { session, path };
  }

  async function joinAt(path: string): Promise<JoinedSession> {
    const joined = await JoinedSession.connect(path);
    if (joined === undefined) throw new Error("nobody shares a session there");
    return joined;
  }

  test("is called by others, results and errors alike, and keeps its connection", async () => {
    const { session, path } = await shared();
    expect(await (await joinAt(path)).invoke("echo", [1, "two"])).toEqual([1, "two"]);
    await expect((await joinAt(path)).invoke("throw", [])).rejects.toMatchObject({
      code: "failed",
      coreCode: "E_TEST",
    });
    expect(session.state).toBe("ready");
    expect(await session.invoke("echo", 3)).toEqual([3]);
  });

  test("is watched by others, who see every message and no secret", async () => {
    const { session, path } = await shared();
    const seen: InspectedMessage[] = [];
    const stopping = new AbortController();
    const watching = (await joinAt(path)).watch(
      { onMessage: (message) => seen.push(message), onProblem: () => {} },
      stopping.signal,
    );
    await waitUntil(() => session.listenerCount("message") > 0, "the watcher");
    await session.invoke("echo", { apiKey: "very secret" });
    await waitUntil(() => seen.length === 2, "two messages");
    stopping.abort();
    await watching;
    expect(seen.map(({ preview }) => preview)).toEqual([
      expect.stringContaining('"args":[{"apiKey":"[hidden]"}]'),
      expect.stringContaining('"result":[{"apiKey":"[hidden]"}]'),
    ]);
    await waitUntil(() => session.listenerCount("message") === 0, "the watcher to be gone");
  });

  test("survives a peer that speaks nonsense", async () => {
    const { session, path } = await shared();
    const { connect } = await import("node:net");
    const closed = new Promise((resolveClosed) => connect(path).once("close", resolveClosed).end("nonsense\n"));
    await closed;
    expect(await session.invoke("echo", 1)).toEqual([1]);
    expect(await (await joinAt(path)).invoke("echo", [2])).toEqual([2]);
  });

  test("is nobody's where nobody shares one", async () => {
    expect(await JoinedSession.connect("/nonexistent/app.sock")).toBeUndefined();
  });
});

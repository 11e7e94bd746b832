import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { RawPeer } from "#test/console/raw-peer.ts";
import { socketPeer, stdioServer } from "#test/console/servers.ts";
import { type LocalAgent, startLocalAgent } from "#test/shell/agent.ts";

let agent: LocalAgent;
beforeAll(async () => {
  agent = await startLocalAgent();
});
afterAll(async () => {
  await agent?.stop();
});

/** Whether the process ends within two seconds; a zombie has ended. */
async function isGoneSoon(pid: string): Promise<boolean> {
  for (let round = 0; round < 100; round++) {
    await Bun.sleep(20);
    const stat = await readFile(`/proc/${pid}/stat`, "utf8").catch(() => "");
    if (stat === "" || stat.includes(") Z ")) return true;
  }
  return false;
}

/** Another connection is served as if nothing had happened. */
async function agentStillServes(): Promise<void> {
  using other = await socketPeer(agent.directory);
  expect(await other.peer.call("exec", { cmd: ["echo", "hi"] })).toMatchObject({
    result: { stdout: Buffer.from("hi\n") },
  });
}

async function writtenPid(path: string): Promise<string> {
  for (;;) {
    const text = await readFile(path, "utf8").catch(() => "");
    if (text.endsWith("\n")) return text.trim();
    await Bun.sleep(10);
  }
}

describe("the end of a session", () => {
  test("is said by quit, to which nothing answers", async () => {
    await using server = stdioServer();
    await server.peer.call("init", {});
    server.peer.notify("quit");
    expect(await server.peer.receive()).toBeUndefined();
    expect(await server.ended).toBe(0);
    expect(server.log()).toBe("");
  });

  test("is the end of the input too", async () => {
    await using server = stdioServer();
    await server.peer.call("version");
    server.peer.end();
    expect(await server.ended).toBe(0);
  });

  test("lets a running command be answered first, by quit and by the end of the input alike", async () => {
    for (const ending of ["quit", "eof"] as const) {
      await using server = stdioServer();
      server.peer.send({
        jsonrpc: "2.0",
        id: 0,
        method: "exec",
        params: { cmd: ["sh", "-c", "sleep 0.5; echo late"] },
      });
      if (ending === "quit") server.peer.notify("quit");
      else server.peer.end();
      expect(await server.peer.receive()).toMatchObject({ id: 0, result: { code: 0, stdout: Buffer.from("late\n") } });
      expect(await server.ended).toBe(0);
    }
  });

  test("of a connection that half closes brings the answer that is owed", async () => {
    using connection = await socketPeer(agent.directory);
    connection.peer.send({
      jsonrpc: "2.0",
      id: 0,
      method: "exec",
      params: { cmd: ["sh", "-c", "sleep 0.3; echo owed"] },
    });
    connection.peer.end();
    expect(await connection.peer.receive()).toMatchObject({ result: { stdout: Buffer.from("owed\n") } });
    expect(await connection.peer.receive()).toBeUndefined();
  });

  const lastWords: [string, (peer: RawPeer) => void][] = [
    ["without a word", () => {}],
    ["after quit", (peer) => peer.notify("quit")],
    ["after start", (peer) => peer.notify("start")],
    ["after another request", (peer) => peer.send({ jsonrpc: "2.0", id: 1, method: "version" })],
    ["after what is no frame", (peer) => peer.sendBytes(Buffer.alloc(4))],
  ];
  for (const [name, speak] of lastWords) {
    test(`of a connection that is lost ${name} kills the command that nobody will hear of`, async () => {
      const directory = mkdtempSync(join(tmpdir(), "vmapp-console-"));
      try {
        const connection = await socketPeer(agent.directory);
        const line = `echo $$ > ${directory}/pid; sleep 41.5; :`;
        connection.peer.send({ jsonrpc: "2.0", id: 0, method: "exec", params: { cmd: ["sh", "-c", line] } });
        const pid = await writtenPid(join(directory, "pid"));
        speak(connection.peer);
        connection.socket.end(() => connection.socket.destroy());
        expect(await isGoneSoon(pid)).toBe(true);
      } finally {
        rmSync(directory, { recursive: true, force: true });
      }
      await agentStillServes();
    });
  }

  for (const [signal, number] of [
    ["SIGTERM", 15],
    ["SIGINT", 2],
    ["SIGHUP", 1],
  ] as const) {
    test(`by ${signal} takes its trees and its command with it`, async () => {
      const directory = mkdtempSync(join(tmpdir(), "vmapp-console-"));
      try {
        await using server = stdioServer();
        await server.peer.call("init", { mounts: [`file:///usr:${directory}/made/tree`] });
        const line = `echo $$ > ${directory}/pid; sleep 41.5; :`;
        server.peer.send({ jsonrpc: "2.0", id: 1, method: "exec", params: { cmd: ["sh", "-c", line] } });
        const pid = await writtenPid(join(directory, "pid"));
        process.kill(server.pid, signal);
        expect(await server.ended).toBe(128 + number);
        expect(readdirSync(directory)).toEqual(["pid"]);
        expect(await isGoneSoon(pid)).toBe(true);
      } finally {
        rmSync(directory, { recursive: true, force: true });
      }
    });
  }

  test("of the reader of standard output kills the command, though the input stays open", async () => {
    const directory = mkdtempSync(join(tmpdir(), "vmapp-console-"));
    try {
      await using server = stdioServer();
      const line = `echo $$ > ${directory}/pid; sleep 41.5; :`;
      server.peer.send({ jsonrpc: "2.0", id: 0, method: "exec", params: { cmd: ["sh", "-c", line] } });
      const pid = await writtenPid(join(directory, "pid"));
      server.closeOutput();
      expect(await isGoneSoon(pid)).toBe(true);
      server.peer.end();
      expect(await server.ended).toBe(0);
    } finally {
      rmSync(directory, { recursive: true, force: true });
    }
  });
});

describe("a stop", () => {
  test("does not wait for a running command: it is killed, and answered with how it ended", async () => {
    const directory = mkdtempSync(join(tmpdir(), "vmapp-console-"));
    try {
      await using server = stdioServer();
      const line = `echo begun; echo $$ > ${directory}/pid; sleep 60; echo never`;
      server.peer.send({ jsonrpc: "2.0", id: 0, method: "exec", params: { cmd: ["sh", "-c", line] } });
      await writtenPid(join(directory, "pid"));
      server.peer.notify("stop");
      expect(await server.peer.receive()).toMatchObject({
        id: 0,
        result: { code: 137, stdout: Buffer.from("begun\n") },
      });
      server.peer.send({ jsonrpc: "2.0", id: 1, method: "exec", params: { cmd: ["echo", "again"] } });
      expect(await server.peer.receive()).toMatchObject({ id: 1, result: { code: 0 } });
    } finally {
      rmSync(directory, { recursive: true, force: true });
    }
  });

  test("reaches the command also when a start or an ignored message comes before it", async () => {
    using connection = await socketPeer(agent.directory);
    const { peer } = connection;
    const between = [
      { jsonrpc: "2.0", method: "start" },
      { jsonrpc: "2.0", method: "unknown" },
      { jsonrpc: "2.0", id: 1, error: { code: 1, message: "no" } },
    ];
    for (const [id, message] of between.entries()) {
      peer.send({ jsonrpc: "2.0", id, method: "exec", params: { cmd: ["sleep", "60"] } });
      peer.send(message);
      peer.notify("stop");
      expect(await peer.receive()).toMatchObject({ id, result: { code: 137 } });
    }
    expect(await peer.call("version")).toMatchObject({ result: { version: "1" } });
  });

  test("that comes right behind a command finds it, however far its start has got", async () => {
    using connection = await socketPeer(agent.directory);
    for (let id = 0; id < 20; id++) {
      connection.peer.send({ jsonrpc: "2.0", id, method: "exec", params: { cmd: ["sleep", "60"] } });
      connection.peer.notify("stop");
      expect(await connection.peer.receive()).toMatchObject({ id, result: { code: 137 } });
    }
  });

  test("and a start may come at any time and answer nothing", async () => {
    using connection = await socketPeer(agent.directory);
    const { peer } = connection;
    for (const method of ["stop", "start", "start", "stop", "stop"]) peer.notify(method);
    expect(await peer.call("version")).toMatchObject({ result: { version: "1" } });
  });
});

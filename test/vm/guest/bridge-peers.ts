/**
 * Runs inside a guest: the ends that the bridge's tests need there.
 *
 *   forward PORT SOCKET      a forwarder on a vsock port that serves the guest itself
 *   scenarios PORT SOCKET    every close scenario through it, over the vsock loopback; prints `ok NAME` or `failed NAME: …`
 *   probe PORT               connects over the vsock loopback, and says whether it is closed at once
 *   collect SOCKET FILE      takes one connection to its end, and writes the SHA-256 of what came
 *   send SOCKET COUNT        sends a pattern to one connection, and closes
 */
import { createHash } from "node:crypto";
import { rmSync, writeFileSync } from "node:fs";
import { Forwarder } from "#init/bridge/forwarder.ts";
import { closeFd, readFd, setNonBlocking, WOULD_BLOCK, writeFd } from "#sys/fd.ts";
import { createLog } from "#sys/log.ts";
import { acceptConnection, listenUnix } from "#sys/stream-socket.ts";
import { cidLocal, connectVsock, listenVsock, peerCid } from "#sys/vsock.ts";
import { closeScenarios, sleep } from "../../integration/bridge-close-orders.ts";
import { pattern } from "../../integration/bridge-pattern.ts";

function forward(port: number, socket: string): never {
  const listenerFd = listenVsock({ port, backlog: 128 });
  setNonBlocking(listenerFd);
  const refusal = (fd: number) => (peerCid(fd) === cidLocal ? undefined : "not this guest");
  return new Forwarder({ listenerFd, appSocket: socket, refusal, toHost: "copy", log: createLog("forwarder") }).run();
}

async function scenarios(port: number, socket: string): Promise<void> {
  const listener = listenApp(socket);
  for (const scenario of closeScenarios) {
    try {
      await scenario.run({ connectHost: () => connectLocal(port), acceptApp: () => accepted(listener) });
      console.log(`ok ${scenario.name}`);
    } catch (error) {
      console.log(`failed ${scenario.name}: ${error instanceof Error ? error.message : String(error)}`);
    }
  }
}

function connectLocal(port: number): number {
  const fd = connectVsock({ cid: cidLocal, port });
  setNonBlocking(fd);
  return fd;
}

async function probe(port: number): Promise<string> {
  const fd = connectLocal(port);
  const byte = new Uint8Array(1);
  for (let patience = 500; patience > 0; patience -= 1) {
    if (readFd(fd, byte, 0, 1) === 0) return "closed";
    await sleep(10);
  }
  return "kept open";
}

async function collect(socket: string, file: string): Promise<void> {
  const fd = await accepted(listenApp(socket));
  const hash = createHash("sha256");
  const buffer = Buffer.alloc(256 * 1024);
  for (;;) {
    const count = readFd(fd, buffer, 0, buffer.length);
    if (count === 0) break;
    if (count === WOULD_BLOCK) await sleep(2);
    else hash.update(buffer.subarray(0, count));
  }
  closeFd(fd);
  writeFileSync(file, hash.digest("hex"));
}

async function send(socket: string, count: number): Promise<void> {
  const fd = await accepted(listenApp(socket));
  const bytes = pattern(count, 21);
  for (let offset = 0; offset < bytes.length; ) {
    const written = writeFd(fd, bytes, offset);
    if (written === WOULD_BLOCK) await sleep(2);
    else offset += written;
  }
  closeFd(fd);
}

function listenApp(socket: string): number {
  rmSync(socket, { force: true });
  const listener = listenUnix({ path: socket, backlog: 16 });
  console.log("listening");
  return listener;
}

async function accepted(listener: number): Promise<number> {
  for (;;) {
    const fd = acceptConnection(listener);
    if (fd !== undefined) return fd;
    await sleep(2);
  }
}

const [role, first = "", second = ""] = process.argv.slice(2);
if (role === "forward") forward(Number(first), second);
else if (role === "scenarios") await scenarios(Number(first), second);
else if (role === "probe") console.log(await probe(Number(first)));
else if (role === "collect") await collect(first, second);
else if (role === "send") await send(first, Number(second));

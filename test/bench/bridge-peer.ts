/**
 * The two ends of the forwarder's bench, as programs of their own that block in system calls, so that what is measured
 * is what lies between them: `serve SOCKET`, and `measure SOCKET trips|upload|download COUNT`, which prints JSON.
 */
import { rmSync } from "node:fs";
import { closeFd } from "#sys/fd.ts";
import { check, libc, ptr } from "#sys/libc.ts";
import { listenUnix, UnixDialler } from "#sys/stream-socket.ts";

const blockBytes = 256 * 1024;
const block = new Uint8Array(blockBytes).fill(0x61);
const blockPointer = ptr(block);
const tripBytes = 100;
const O_NONBLOCK = 0o4000;

function makeBlocking(fd: number): void {
  const flags = check("fcntl", libc.fcntl(fd, 3, 0));
  libc.fcntl(fd, 4, flags & ~O_NONBLOCK);
}

function readSome(fd: number, limit: number): number {
  return check("read", libc.read(fd, blockPointer, limit));
}

function writeAll(fd: number, count: number): void {
  for (let left = count; left > 0; ) left -= check("write", libc.write(fd, blockPointer, left));
}

function readAll(fd: number, count: number): void {
  for (let left = count; left > 0; ) {
    const got = readSome(fd, left);
    if (got === 0) throw new Error(`the other end closed with ${left} bytes to come`);
    left -= got;
  }
}

/** The first 9 bytes say what is wanted: a mode and a count. */
function serve(path: string): never {
  rmSync(path, { force: true });
  const listener = listenUnix({ path, backlog: 16 });
  makeBlocking(listener);
  for (;;) {
    const fd = check("accept4", libc.accept4(listener, null, null, 0));
    readAll(fd, 9);
    const mode = String.fromCharCode(block[0] as number);
    const count = Number(new DataView(block.buffer).getBigUint64(1, true));
    if (mode === "t") {
      for (let trip = 0; trip < count; trip += 1) {
        readAll(fd, tripBytes);
        writeAll(fd, tripBytes);
      }
    } else if (mode === "u") {
      for (let left = count; left > 0; ) {
        const got = readSome(fd, Math.min(left, blockBytes));
        if (got === 0) break;
        left -= got;
      }
      writeAll(fd, 1);
    } else {
      for (let left = count; left > 0; left -= blockBytes) writeAll(fd, Math.min(blockBytes, left));
    }
    closeFd(fd);
  }
}

function measure(path: string, mode: string, count: number): void {
  const fd = new UnixDialler(path).connect();
  if (fd === undefined) throw new Error(`nothing listens on ${path}`);
  makeBlocking(fd);
  block[0] = mode.charCodeAt(0);
  new DataView(block.buffer).setBigUint64(1, BigInt(count), true);
  writeAll(fd, 9);
  const started = performance.now();
  if (mode === "trips") {
    const microseconds: number[] = [];
    for (let trip = 0; trip < count; trip += 1) {
      const before = performance.now();
      writeAll(fd, tripBytes);
      readAll(fd, tripBytes);
      microseconds.push((performance.now() - before) * 1000);
    }
    microseconds.sort((a, b) => a - b);
    console.log(JSON.stringify({ medianMicroseconds: microseconds[count >> 1] }));
  } else {
    if (mode === "upload") {
      for (let left = count; left > 0; left -= blockBytes) writeAll(fd, Math.min(blockBytes, left));
      readAll(fd, 1);
    } else {
      let got = 0;
      for (let some = readSome(fd, blockBytes); some > 0; some = readSome(fd, blockBytes)) got += some;
      if (got !== count) throw new Error(`${got} bytes instead of ${count}`);
    }
    console.log(JSON.stringify({ bytesPerSecond: count / ((performance.now() - started) / 1000) }));
  }
  closeFd(fd);
}

const [command, path, mode, count] = process.argv.slice(2);
if (command === "serve" && path !== undefined) serve(path);
if (command === "measure" && path !== undefined && mode !== undefined) measure(path, mode, Number(count));

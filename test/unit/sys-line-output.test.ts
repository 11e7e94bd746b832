import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { closeFd, createPipe, type Pipe, readFd, setNonBlocking, WOULD_BLOCK } from "#sys/fd.ts";
import { LineOutput } from "#sys/line-output.ts";

let pipe: Pipe;
let output: LineOutput;
beforeEach(() => {
  pipe = createPipe();
  setNonBlocking(pipe.readFd);
  output = new LineOutput({ fd: pipe.writeFd, describeLoss: (lines) => `${lines} lines lost\n` });
});
afterEach(() => {
  closeFd(pipe.readFd);
  closeFd(pipe.writeFd);
});

const buffer = new Uint8Array(8192);

function readNow(limit = Number.POSITIVE_INFINITY): string {
  let text = "";
  while (text.length < limit) {
    const count = readFd(pipe.readFd, buffer, 0, buffer.length);
    if (count === WOULD_BLOCK || count === 0) break;
    text += Buffer.from(buffer.subarray(0, count)).toString();
  }
  return text;
}

async function readUntil(found: (text: string) => boolean): Promise<string> {
  let text = "";
  for (const deadline = performance.now() + 5_000; !found(text); text += readNow()) {
    if (performance.now() > deadline) throw new Error(`the output ended with ${JSON.stringify(text.slice(-200))}`);
    await Bun.sleep(2);
  }
  return text;
}

const line = (index: number): Buffer => Buffer.from(`line ${String(index).padStart(6, "0")} ${"x".repeat(80)}\n`);

describe("an output for lines", () => {
  test("passes lines on at once while there is room", () => {
    output.write(Buffer.from("one\n"));
    output.write(Buffer.from("two\nthree\n"));
    expect(readNow()).toBe("one\ntwo\nthree\n");
  });

  test("that nobody reads holds nobody up, keeps whole lines in order, and tells how many were lost", async () => {
    const count = 50_000;
    for (let index = 0; index < count; index += 1) output.write(line(index));
    const lines = (await readUntil((text) => text.endsWith("lines lost\n"))).trimEnd().split("\n");
    const kept = lines.length - 1;
    expect(kept).toBeGreaterThan(1_000);
    expect(lines.slice(0, kept)).toEqual(Array.from({ length: kept }, (_, index) => line(index).toString().trimEnd()));
    expect(lines.at(-1)).toBe(`${count - kept} lines lost`);
    output.write(Buffer.from("after\n"));
    expect(readNow()).toBe("after\n");
  });

  test("that is read slowly loses nothing for a writer that waits for it", async () => {
    const count = 20_000;
    let read = "";
    let over = false;
    const reading = (async () => {
      while (!over || read.length < count * line(0).length) {
        read += readNow(20_000);
        await Bun.sleep(1);
      }
    })();
    for (let index = 0; index < count; index += 100) {
      output.write(Buffer.concat(Array.from({ length: 100 }, (_, offset) => line(index + offset))));
      await output.drained();
    }
    over = true;
    await reading;
    expect(read).toBe(Array.from({ length: count }, (_, index) => line(index).toString()).join(""));
  });

  test("that has stalled is waited for once and no more, until it moves again", async () => {
    const block = Buffer.concat(Array.from({ length: 2_000 }, (_, index) => line(index)));
    output.write(block);
    await output.drained();
    let waited = false;
    const timer = setTimeout(() => {
      waited = true;
    }, 500);
    for (let index = 0; index < 100; index += 1) {
      output.write(block);
      await output.drained();
    }
    clearTimeout(timer);
    expect(waited).toBe(false);
    const text = await readUntil((so) => so.endsWith("lines lost\n"));
    expect(text.endsWith("\n200000 lines lost\n")).toBe(true);
    expect(text.startsWith(block.toString())).toBe(true);
  });

  test("whose reader has gone takes everything and throws nothing", () => {
    closeFd(pipe.readFd);
    for (let index = 0; index < 2_000; index += 1) output.write(line(index));
    pipe = createPipe();
  });

  test("leaves the descriptor that it was given as it was", () => {
    output.write(Buffer.from("x\n"));
    const flags = Number.parseInt(
      /flags:\s+(\d+)/.exec(readFileSync(`/proc/self/fdinfo/${pipe.writeFd}`, "utf8"))?.[1] ?? "",
      8,
    );
    expect(flags & 0o4000).toBe(0);
  });
});

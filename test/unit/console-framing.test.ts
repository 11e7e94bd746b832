import { describe, expect, test } from "bun:test";
import { FrameInbox, TruncatedFrameError } from "#protocol/console/frame-inbox.ts";
import { maxPayload } from "#protocol/console/limits.ts";
import { encodeMessage } from "#protocol/console/message.ts";
import { encodeFrame, FrameDecoder, FrameLimitError } from "#protocol/framing.ts";

const frame = (bytes: Uint8Array) => encodeFrame(bytes, maxPayload);

describe("the inbox of a channel", () => {
  test("hands frames out in order, however they were cut", async () => {
    const payloads = [1, 2, 70_000, 3].map((length, index) => Buffer.alloc(length, index));
    const stream = Buffer.concat(payloads.map(frame));
    for (const step of [1, 3, 4096, stream.length]) {
      const inbox = new FrameInbox(() => {});
      for (let offset = 0; offset < stream.length; offset += step) inbox.push(stream.subarray(offset, offset + step));
      inbox.end();
      for (const payload of payloads) expect(Buffer.compare((await inbox.next()) as Uint8Array, payload)).toBe(0);
      expect(await inbox.next()).toBeUndefined();
    }
  });

  test("treats no payload byte as special", async () => {
    const every = Uint8Array.from({ length: 256 }, (_, index) => index);
    const inbox = new FrameInbox(() => {});
    inbox.push(frame(every));
    expect(await inbox.next()).toEqual(Buffer.from(every));
  });

  test("ends cleanly between frames only", async () => {
    const whole = frame(Buffer.from("abc"));
    for (const cut of [1, 2, 3, 4, 6]) {
      const inbox = new FrameInbox(() => {});
      inbox.push(whole.subarray(0, cut));
      inbox.end();
      await expect(inbox.next()).rejects.toThrow(TruncatedFrameError);
    }
  });

  test("refuses a length that could only be wrong before the payload comes", async () => {
    for (const header of [
      [0xff, 0xff, 0xff, 0xff],
      [0, 0, 0, 0],
      [4, 0, 0, 1],
    ]) {
      const inbox = new FrameInbox(() => {});
      inbox.push(Buffer.from(header));
      await expect(inbox.next()).rejects.toThrow(FrameLimitError);
    }
  });

  test("wants bytes only while somebody waits for a frame", async () => {
    const wanted: boolean[] = [];
    const inbox = new FrameInbox((flowing) => wanted.push(flowing));
    inbox.push(frame(Buffer.from("a")));
    expect(wanted.at(-1)).toBe(false);
    await inbox.next();
    expect(wanted.at(-1)).toBe(false);
    const next = inbox.next();
    expect(wanted.at(-1)).toBe(true);
    inbox.push(frame(Buffer.from("b")));
    await next;
    expect(wanted.at(-1)).toBe(false);
  });

  test("hands out whole frames before it tells of a failure, and knows none after the end", async () => {
    const failed = new FrameInbox(() => {});
    failed.push(frame(Buffer.from("a")));
    failed.fail(new Error("the connection was lost"));
    expect(await failed.next()).toEqual(Buffer.from("a"));
    await expect(failed.next()).rejects.toThrow("the connection was lost");

    const ended = new FrameInbox(() => {});
    ended.end();
    ended.fail(new Error("the connection was lost"));
    expect(await ended.next()).toBeUndefined();
  });
});

describe("a large frame", () => {
  test("that arrives in pieces is put together in one buffer, and the next frame follows it", () => {
    const payload = Buffer.alloc(5 * 1024 * 1024);
    for (let index = 0; index < payload.length; index += 4099) payload[index] = index;
    const stream = Buffer.concat([frame(payload), frame(Buffer.from("next"))]);
    const decoder = new FrameDecoder(maxPayload);
    const found: Uint8Array[] = [];
    for (let offset = 0; offset < stream.length; offset += 65_536) {
      decoder.push(stream.subarray(offset, offset + 65_536));
      for (let next = decoder.next(); next !== undefined; next = decoder.next()) found.push(next);
    }
    expect(found.length).toBe(2);
    expect(Buffer.compare(found[0] as Uint8Array, payload)).toBe(0);
    expect(Buffer.from(found[1] as Uint8Array).toString()).toBe("next");
    expect(decoder.atBoundary).toBe(true);
  });

  test("that is only announced takes no memory, and the stream is not at a boundary", () => {
    const before = process.memoryUsage.rss();
    const decoders = Array.from({ length: 20 }, () => {
      const decoder = new FrameDecoder(maxPayload);
      decoder.push(Buffer.from([4, 0, 0, 0, 1]));
      expect(decoder.next()).toBeUndefined();
      return decoder;
    });
    expect(decoders.every((decoder) => !decoder.atBoundary)).toBe(true);
    expect(process.memoryUsage.rss() - before).toBeLessThan(100 * 1024 * 1024);
  });
});

test("the frame's length and the document's own agree, in their own byte orders", () => {
  const bytes = Buffer.concat(encodeMessage({ kind: "notification", method: "quit" }));
  expect(bytes.readUInt32BE(0)).toBe(bytes.readInt32LE(4));
});

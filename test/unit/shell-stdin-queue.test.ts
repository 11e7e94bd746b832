import { afterEach, describe, expect, test } from "bun:test";
import { StdinQueue } from "#agent/shell/stdin.ts";
import { closeFd, createPipe, readFd, setNonBlocking, tryPipeSize, WOULD_BLOCK } from "#sys/fd.ts";
import { FdWriter } from "#sys/stream-fd.ts";
import { eventually } from "#test/shell/processes.ts";

const pipeBytes = 4096;

/** A queue in front of a real pipe that holds one page, with the reading end in the test's hands. */
class Bench {
  readonly writer: FdWriter;
  readonly queue: StdinQueue;
  readonly readEnd: number;
  granted = 0;
  grants = 0;
  resumed = 0;
  #open = true;

  constructor({ tty = false, flow = true } = {}) {
    const pipe = createPipe();
    tryPipeSize(pipe.writeFd, pipeBytes);
    setNonBlocking(pipe.readFd);
    this.readEnd = pipe.readFd;
    this.writer = new FdWriter(pipe.writeFd);
    this.queue = new StdinQueue({
      writer: this.writer,
      tty,
      resumed: () => {
        this.resumed += 1;
      },
    });
    this.queue.serve({
      flow,
      grant: (bytes) => {
        this.granted += bytes;
        this.grants += 1;
      },
    });
  }

  /** What the pipe holds now; undefined at its end. */
  read(): Buffer | undefined {
    const buffer = new Uint8Array(1 << 20);
    const count = readFd(this.readEnd, buffer, 0, buffer.length);
    if (count === WOULD_BLOCK) return Buffer.alloc(0);
    return count === 0 ? undefined : Buffer.from(buffer.subarray(0, count));
  }

  async readAll(bytes: number): Promise<Buffer> {
    const pieces: Buffer[] = [];
    let got = 0;
    await eventually(`${bytes} bytes in the pipe`, () => {
      const piece = this.read();
      if (piece !== undefined) {
        pieces.push(piece);
        got += piece.length;
      }
      return got >= bytes;
    });
    return Buffer.concat(pieces);
  }

  closeReadEnd(): void {
    if (this.#open) closeFd(this.readEnd);
    this.#open = false;
  }
}

const benches: Bench[] = [];
function bench(options?: ConstructorParameters<typeof Bench>[0]): Bench {
  const made = new Bench(options);
  benches.push(made);
  return made;
}

afterEach(() => {
  for (const made of benches.splice(0)) {
    made.queue.close();
    made.closeReadEnd();
  }
});

const payload = (bytes: number, fill = 0x61) => new Uint8Array(bytes).fill(fill);
const settle = () => Bun.sleep(30);

describe("a session's stdin queue", () => {
  test("returns the credit of a payload once it has been written", async () => {
    const made = bench();
    made.queue.push(payload(100));
    await settle();
    expect(made.granted).toBe(100);
    expect((await made.readAll(100)).length).toBe(100);
  });

  test("returns nothing while the payload still waits for the command", async () => {
    const made = bench();
    made.queue.push(payload(pipeBytes * 2));
    made.queue.push(payload(10));
    await settle();
    expect(made.granted).toBe(0);
    await made.readAll(pipeBytes * 2 + 10);
    await eventually("the credit of both", () => made.granted === pipeBytes * 2 + 10);
  });

  test("keeps the order of payloads", async () => {
    const made = bench();
    for (let index = 0; index < 50; index += 1) made.queue.push(payload(1000, index));
    const all = await made.readAll(50_000);
    for (let index = 0; index < 50; index += 1) expect(all[index * 1000 + 999]).toBe(index);
  });

  test("grants nothing without flow control", async () => {
    const made = bench({ flow: false });
    made.queue.push(payload(100));
    await made.readAll(100);
    await settle();
    expect(made.grants).toBe(0);
  });

  test("returns the credit of input that a command which closed its stdin never took", async () => {
    const made = bench();
    made.closeReadEnd();
    made.queue.push(payload(500));
    made.queue.push(payload(70));
    await eventually("the credit of both", () => made.granted === 570);
  });

  test.each([
    [262_143, 1, false],
    [262_143, 2, true],
    [262_144, 1, true],
    [200_000, 62_144, false],
    [200_000, 62_145, true],
  ])("with %d bytes queued, a payload of %d has to wait: %p", async (queued, more, waits) => {
    const made = bench();
    made.queue.push(payload(queued));
    expect(made.queue.wouldBlock(more)).toBe(waits);
  });

  test("takes one payload of any size into an empty queue, so that nobody waits for ever", () => {
    expect(bench().queue.wouldBlock(1 << 20)).toBe(false);
  });

  test("says when there is room again", async () => {
    const made = bench();
    made.queue.push(payload(262_144));
    expect(made.queue.wouldBlock(10)).toBe(true);
    await made.readAll(262_144);
    await eventually("room", () => made.resumed > 0);
    expect(made.queue.wouldBlock(10)).toBe(false);
  });

  test("on pipes, closes the command's stdin behind what is queued", async () => {
    const made = bench();
    made.queue.push(payload(pipeBytes * 3));
    made.queue.end();
    await settle();
    expect(made.writer.closed).toBe(false);
    expect((await made.readAll(pipeBytes * 3)).length).toBe(pipeBytes * 3);
    await eventually("the end of the pipe", () => made.read() === undefined);
  });

  test("on pipes, closes an idle stdin at once", async () => {
    const made = bench();
    made.queue.end();
    await eventually("the end of the pipe", () => made.read() === undefined);
  });

  test.each([
    [false, true],
    [false, false],
    [true, true],
  ])("drops input after the end without returning its credit (tty %p, flow %p)", async (tty, flow) => {
    const made = bench({ tty, flow });
    made.queue.push(payload(10));
    made.queue.end();
    made.queue.push(payload(5));
    expect((await made.readAll(10)).length).toBe(10);
    await settle();
    expect(made.granted).toBe(flow ? 10 : 0);
    expect(made.read()?.length ?? 0).toBe(0);
  });

  test("on a pty with flow control, the end leaves the terminal open", async () => {
    const made = bench({ tty: true });
    made.queue.end();
    await settle();
    expect(made.writer.closed).toBe(false);
  });

  test("on a pty without flow control, the end is ignored and later input arrives", async () => {
    const made = bench({ tty: true, flow: false });
    made.queue.end();
    made.queue.push(payload(5));
    expect((await made.readAll(5)).length).toBe(5);
  });

  test("on a pty, a further client may type where the former one had ended its input", async () => {
    const made = bench({ tty: true });
    made.queue.push(payload(3));
    made.queue.end();
    let second = 0;
    made.queue.serve({
      flow: true,
      grant: (bytes) => {
        second += bytes;
      },
    });
    made.queue.push(payload(5));
    expect((await made.readAll(8)).length).toBe(8);
    await eventually("all of the credit", () => second === 8);
  });

  test("a further client has the credit that input of the former one leaves, and gets the rest as that is written", async () => {
    const made = bench();
    made.queue.push(payload(pipeBytes));
    made.queue.push(payload(100_000));
    await eventually("a full pipe", () => made.granted === pipeBytes);
    let granted = made.queue.credit;
    expect(granted).toBe(262_144 - 100_000);
    made.queue.serve({
      flow: true,
      grant: (bytes) => {
        granted += bytes;
      },
    });
    expect(made.queue.wouldBlock(granted)).toBe(false);
    await made.readAll(pipeBytes + 100_000);
    await eventually("the whole credit", () => granted === 262_144);
    expect(made.granted).toBe(pipeBytes);
  });

  test("a further client is never granted more than the queue takes, whatever the former one had sent", async () => {
    const made = bench({ flow: false });
    made.queue.push(payload(1_000_000));
    await settle();
    let granted = made.queue.credit;
    expect(granted).toBe(0);
    made.queue.serve({
      flow: true,
      grant: (bytes) => {
        granted += bytes;
      },
    });
    await made.readAll(1_000_000);
    await eventually("the whole credit", () => granted > 0);
    expect(granted).toBe(262_144);
  });

  test("closing drops what waits and lets go of the descriptor", async () => {
    const made = bench();
    made.queue.push(payload(pipeBytes * 4));
    await settle();
    made.queue.close();
    expect(made.writer.closed).toBe(true);
    await made.readAll(pipeBytes);
    await eventually("the end of the pipe", () => made.read() === undefined);
  });
});
